-- The jobs that the process with pid $1 holds a lease on.
SELECT job_id
FROM reconciliation_jobs
WHERE status = 'processing' AND split_part(lease_owner, '/', 2) = $1
ORDER BY job_id
