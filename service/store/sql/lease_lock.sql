-- Lock the jobs whose leases one owner has, in job order: the fence that a business transaction has to pass.
SELECT job.job_id, job.lease_epoch
FROM reconciliation_jobs AS job
JOIN unnest($2::bigint[], $3::bigint[]) AS lease (job_id, lease_epoch)
    ON lease.job_id = job.job_id AND lease.lease_epoch = job.lease_epoch
WHERE
    job.lease_owner = $1
    AND job.status = 'processing'
    AND job.lease_until > clock_timestamp()
ORDER BY job.job_id
FOR NO KEY UPDATE OF job
