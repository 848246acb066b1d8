-- Give jobs of one owner back before their leases run out: a release is no attempt, a failure is one.
WITH held AS MATERIALIZED (
    SELECT job.job_id, back.lease_epoch, back.outcome, back.delay_seconds, back.error
    FROM reconciliation_jobs AS job
    JOIN unnest($2::bigint[], $3::bigint[], $4::text[], $5::double precision[], $6::text[])
        AS back (job_id, lease_epoch, outcome, delay_seconds, error)
        ON back.job_id = job.job_id AND back.lease_epoch = job.lease_epoch
    WHERE
        job.lease_owner = $1
        AND job.status = 'processing'
        AND job.lease_until > clock_timestamp()
    ORDER BY job.job_id
    FOR NO KEY UPDATE OF job
),
returned AS (
    UPDATE reconciliation_jobs AS job
    SET
        status = 'pending',
        lease_owner = NULL,
        lease_until = NULL,
        run_at = clock_timestamp() + make_interval(secs => held.delay_seconds),
        releases = job.releases + CASE held.outcome WHEN 'released' THEN 1 ELSE 0 END,
        last_error = held.error
    FROM held
    WHERE
        job.job_id = held.job_id
        AND job.lease_epoch = held.lease_epoch
        AND job.lease_owner = $1
        AND job.status = 'processing'
        AND job.lease_until > clock_timestamp()
    RETURNING job.job_id, job.lease_epoch, held.outcome, held.error
),
closed AS (
    UPDATE reconciliation_attempts AS attempt
    SET finished_at = clock_timestamp(), outcome = returned.outcome, error = returned.error
    FROM returned
    WHERE
        attempt.job_id = returned.job_id
        AND attempt.lease_epoch = returned.lease_epoch
        AND attempt.finished_at IS NULL
)
SELECT job_id, lease_epoch FROM returned
