-- A payment's jobs, the newest first.
SELECT
    job_id, payment_id, reason, status, run_at, lease_owner, lease_until, lease_epoch, attempts, releases,
    max_attempts, outcome, last_error, created_at, finished_at
FROM reconciliation_jobs
WHERE payment_id = $1
ORDER BY job_id DESC
LIMIT $2
