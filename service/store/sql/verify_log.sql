-- Read what the log says changed some payments, in the order in which it did.
SELECT
    payment_id, log_id, kind, actor, event_id, coalesce(psp, '') AS psp, coalesce(psp_reference, '') AS psp_reference,
    epoch, version, changekind, outcome, row_version, data, digest, occurred_at
FROM payment_events
WHERE payment_id = ANY($1::text[]) AND outcome IN ('applied', 'conflict')
ORDER BY payment_id, log_id
