-- Make expired jobs due again: at once after the first lost attempt, then with full jitter over a doubling wait; the epoch stays.
WITH expired AS MATERIALIZED (
    SELECT job.job_id, job.lease_epoch, job.attempts - job.releases AS lost
    FROM reconciliation_jobs AS job
    JOIN unnest($1::bigint[], $2::bigint[]) AS lease (job_id, lease_epoch)
        ON lease.job_id = job.job_id AND lease.lease_epoch = job.lease_epoch
    WHERE
        job.status = 'processing'
        AND job.lease_until <= statement_timestamp()
        AND job.attempts - job.releases < job.max_attempts
    ORDER BY job.job_id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
returned AS (
    UPDATE reconciliation_jobs AS job
    SET
        status = 'pending',
        lease_owner = NULL,
        lease_until = NULL,
        last_error = 'the lease ran out',
        run_at = clock_timestamp() + make_interval(
            secs => CASE WHEN expired.lost <= 1 THEN 0 ELSE random() * least(300, 2 ^ least(expired.lost, 9)) END
        )
    FROM expired
    WHERE
        job.job_id = expired.job_id
        AND job.lease_epoch = expired.lease_epoch
        AND job.status = 'processing'
        AND job.lease_until <= statement_timestamp()
    RETURNING job.job_id, job.lease_epoch
),
closed AS (
    UPDATE reconciliation_attempts AS attempt
    SET finished_at = clock_timestamp(), outcome = 'expired', error = 'the lease ran out'
    FROM returned
    WHERE
        attempt.job_id = returned.job_id
        AND attempt.lease_epoch = returned.lease_epoch
        AND attempt.finished_at IS NULL
)
SELECT job_id FROM returned
