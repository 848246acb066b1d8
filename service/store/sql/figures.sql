-- What operators watch, in one look: ages in seconds, counts, and what is paused.
SELECT
    coalesce((
        SELECT extract(epoch FROM clock_timestamp() - min(pending_since))
        FROM payments WHERE next_check_at IS NOT NULL
    ), 0)::float8 AS pending_oldest_seconds,
    (SELECT count(*) FROM payments WHERE next_check_at IS NOT NULL AND pending_since IS NOT NULL) AS pending,
    (SELECT count(*) FROM dead_letters WHERE status = 'parked') AS dead_letters_parked,
    coalesce((
        SELECT extract(epoch FROM clock_timestamp() - min(run_at))
        FROM reconciliation_jobs WHERE status = 'pending' AND run_at <= clock_timestamp()
    ), 0)::float8 AS jobs_due_oldest_seconds,
    (
        SELECT count(*) FROM discrepancies WHERE status = 'open' AND kind = 'STUCK_PENDING'
    ) AS stuck,
    (SELECT count(*) FROM outbox WHERE published_at IS NULL) AS outbox_unpublished,
    coalesce((
        SELECT extract(epoch FROM clock_timestamp() - min(created_at))
        FROM outbox WHERE published_at IS NULL
    ), 0)::float8 AS outbox_oldest_seconds,
    (SELECT healing_paused FROM controls) AS healing_paused,
    (SELECT mode FROM controls) AS mode,
    (
        SELECT heals_left FROM controls WHERE heals_minute >= date_trunc('minute', statement_timestamp())
    ) AS heals_left
