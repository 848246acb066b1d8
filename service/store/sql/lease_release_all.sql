-- Give back every job that one owner holds: due at once, its attempt ends as released.
WITH held AS MATERIALIZED (
    SELECT job_id, lease_epoch
    FROM reconciliation_jobs
    WHERE
        status = 'processing'
        AND lease_owner = $1
        AND lease_until > clock_timestamp()
    ORDER BY job_id
    FOR NO KEY UPDATE SKIP LOCKED
),
released AS (
    UPDATE reconciliation_jobs AS job
    SET
        status = 'pending',
        lease_owner = NULL,
        lease_until = NULL,
        run_at = clock_timestamp(),
        releases = job.releases + 1
    FROM held
    WHERE
        job.job_id = held.job_id
        AND job.lease_epoch = held.lease_epoch
        AND job.lease_owner = $1
        AND job.status = 'processing'
        AND job.lease_until > clock_timestamp()
    RETURNING job.job_id, job.lease_epoch
),
closed AS (
    UPDATE reconciliation_attempts AS attempt
    SET finished_at = clock_timestamp(), outcome = 'released', error = $2
    FROM released
    WHERE
        attempt.job_id = released.job_id
        AND attempt.lease_epoch = released.lease_epoch
        AND attempt.finished_at IS NULL
)
SELECT count(*) FROM released
