-- Open discrepancies; one that opened and closed within a batch is kept as closed.
INSERT INTO discrepancies (
    payment_id, kind, status, holds, amount_at_risk_minor, currency, details,
    resolved_at, resolved_by, resolution
)
SELECT
    payment_id, kind, status, holds, amount_at_risk_minor, currency, details::jsonb,
    CASE WHEN NOT holds THEN now() END,
    CASE WHEN NOT holds THEN 'reconciler' END,
    CASE WHEN NOT holds THEN 'the facts agree' END
FROM unnest($1::text[], $2::text[], $3::text[], $4::boolean[], $5::bigint[], $6::text[], $7::text[])
    WITH ORDINALITY AS new (
        payment_id, kind, status, holds, amount_at_risk_minor, currency, details, place
    )
ORDER BY place
