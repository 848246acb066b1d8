-- The attempts at a job, in order.
SELECT job_id, lease_epoch, attempt, lease_owner, started_at, finished_at, outcome, error
FROM reconciliation_attempts
WHERE job_id = $1
ORDER BY lease_epoch
