-- How far the demo's story has come; $1 is the consumer group, $2 the seconds within which a check is due.
SELECT
    (SELECT coalesce(sum(next_offset), 0)::bigint FROM consumer_offsets WHERE consumer_group = $1)
        AS ingested,
    (SELECT count(*) FROM payments) AS payments,
    (SELECT count(*) FROM payment_events WHERE kind <> 'heal' AND outcome = 'applied') AS applied,
    (SELECT count(*) FROM payment_events WHERE kind <> 'heal' AND outcome = 'stale') AS stale,
    (SELECT count(*) FROM payment_events WHERE outcome = 'conflict') AS conflicts,
    (SELECT count(*) FROM dead_letters) AS dead_letters,
    (SELECT count(*) FROM reconciliation_jobs WHERE status IN ('pending', 'processing')) AS open_jobs,
    (SELECT count(*) FROM reconciliation_jobs WHERE status = 'completed') AS completed_jobs,
    (SELECT count(*) FROM reconciliation_jobs WHERE status = 'dead') AS dead_jobs,
    (SELECT count(*) FROM payments
        WHERE next_check_at <= clock_timestamp() + make_interval(secs => $2)) AS due_payments,
    (SELECT count(*) FROM outbox) AS announced,
    (SELECT count(*) FROM outbox WHERE published_at IS NULL) AS unpublished
