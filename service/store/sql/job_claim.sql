-- Take due jobs for one owner, each with a new lease, epoch and attempt; an attempt that was left open ends as expired.
WITH due AS MATERIALIZED (
    SELECT job_id
    FROM reconciliation_jobs
    WHERE
        status IN ('pending', 'processing')
        AND run_at <= statement_timestamp()
        AND (status = 'pending' OR lease_until <= statement_timestamp())
        AND attempts - releases < max_attempts
        AND NOT EXISTS (SELECT FROM controls WHERE healing_paused)
    ORDER BY run_at, job_id
    LIMIT $2
    FOR NO KEY UPDATE SKIP LOCKED
),
claimed AS (
    UPDATE reconciliation_jobs AS job
    SET
        status = 'processing',
        lease_owner = $1,
        lease_until = clock_timestamp() + make_interval(secs => $3),
        lease_epoch = job.lease_epoch + 1,
        attempts = job.attempts + 1
    FROM due
    WHERE
        job.job_id = due.job_id
        AND (
            job.status = 'pending'
            OR (job.status = 'processing' AND job.lease_until <= statement_timestamp())
        )
        AND job.attempts - job.releases < job.max_attempts
    RETURNING
        job.job_id, job.lease_epoch, job.payment_id, job.reason, job.attempts, job.releases, job.run_at
),
expired AS (
    UPDATE reconciliation_attempts AS attempt
    SET finished_at = clock_timestamp(), outcome = 'expired', error = 'the lease ran out'
    FROM claimed
    WHERE
        attempt.job_id = claimed.job_id
        AND attempt.lease_epoch = claimed.lease_epoch - 1
        AND attempt.finished_at IS NULL
),
started AS (
    INSERT INTO reconciliation_attempts (job_id, lease_epoch, attempt, lease_owner)
    SELECT job_id, lease_epoch, attempts, $1 FROM claimed
)
SELECT job_id, lease_epoch, payment_id, reason, attempts, releases
FROM claimed
ORDER BY run_at, job_id
