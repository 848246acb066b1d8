-- Which of these leases ended with their job; it waits for whoever holds a row, and so for a commit that is under way.
SELECT job.job_id, job.lease_epoch, job.outcome
FROM reconciliation_jobs AS job
JOIN unnest($1::bigint[], $2::bigint[]) AS lease (job_id, lease_epoch)
    ON lease.job_id = job.job_id AND lease.lease_epoch = job.lease_epoch
ORDER BY job.job_id
FOR SHARE OF job
