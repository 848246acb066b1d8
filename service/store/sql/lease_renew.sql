-- Renew the leases of one owner that have not run out, in job order; a row that somebody holds locked waits for the next round.
WITH held AS MATERIALIZED (
    SELECT job.job_id, job.lease_epoch
    FROM reconciliation_jobs AS job
    JOIN unnest($2::bigint[], $3::bigint[]) AS lease (job_id, lease_epoch)
        ON lease.job_id = job.job_id AND lease.lease_epoch = job.lease_epoch
    WHERE
        job.lease_owner = $1
        AND job.status = 'processing'
        AND job.lease_until > clock_timestamp()
    ORDER BY job.job_id
    FOR NO KEY UPDATE OF job SKIP LOCKED
)
UPDATE reconciliation_jobs AS job
SET lease_until = clock_timestamp() + make_interval(secs => $4)
FROM held
WHERE
    job.job_id = held.job_id
    AND job.lease_epoch = held.lease_epoch
    AND job.lease_owner = $1
    AND job.status = 'processing'
    AND job.lease_until > clock_timestamp()
RETURNING job.job_id, job.lease_epoch
