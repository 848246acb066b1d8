-- Bring held discrepancies up to the facts and close those that the facts ended, each by the version read.
UPDATE discrepancies AS held
SET
    status = new.status,
    holds = new.holds,
    amount_at_risk_minor = new.amount_at_risk_minor,
    currency = new.currency,
    details = new.details::jsonb,
    version = held.version + 1,
    resolved_at = CASE WHEN held.status = 'open' AND new.status <> 'open' THEN now() ELSE held.resolved_at END,
    resolved_by = CASE WHEN held.status = 'open' AND new.status <> 'open' THEN 'reconciler' ELSE held.resolved_by END,
    resolution = CASE WHEN held.status = 'open' AND new.status <> 'open' THEN 'the facts agree' ELSE held.resolution END
FROM unnest(
    $1::bigint[], $2::bigint[], $3::text[], $4::boolean[], $5::bigint[], $6::text[], $7::text[]
) AS new (discrepancy_id, version, status, holds, amount_at_risk_minor, currency, details)
WHERE held.discrepancy_id = new.discrepancy_id AND held.version = new.version
