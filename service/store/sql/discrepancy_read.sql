-- Read the discrepancies whose facts still disagree, those that a person closed included.
SELECT payment_id, discrepancy_id, kind, status, version, amount_at_risk_minor, currency, details
FROM discrepancies
WHERE payment_id = ANY($1::text[]) AND holds
