-- Which leases one owner has by the database's word, read without a lock.
SELECT job_id, lease_epoch
FROM reconciliation_jobs
WHERE status = 'processing' AND lease_owner = $1 AND lease_until > clock_timestamp()
ORDER BY job_id
