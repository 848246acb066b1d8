-- End jobs of one owner whose leases have not run out, each with its attempt; the caller compares both counts.
WITH finished AS (
    UPDATE reconciliation_jobs AS job
    SET
        status = 'completed',
        outcome = ending.outcome,
        finished_at = clock_timestamp(),
        lease_owner = NULL,
        lease_until = NULL
    FROM unnest($2::bigint[], $3::bigint[], $4::text[]) AS ending (job_id, lease_epoch, outcome)
    WHERE
        job.job_id = ending.job_id
        AND job.lease_epoch = ending.lease_epoch
        AND job.lease_owner = $1
        AND job.status = 'processing'
        AND job.lease_until > clock_timestamp()
    RETURNING job.job_id, job.lease_epoch, job.outcome
),
closed AS (
    UPDATE reconciliation_attempts AS attempt
    SET finished_at = clock_timestamp(), outcome = finished.outcome
    FROM finished
    WHERE
        attempt.job_id = finished.job_id
        AND attempt.lease_epoch = finished.lease_epoch
        AND attempt.finished_at IS NULL
    RETURNING attempt.job_id
)
SELECT (SELECT count(*) FROM finished) AS jobs, (SELECT count(*) FROM closed) AS attempts
