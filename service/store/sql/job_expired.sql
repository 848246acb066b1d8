-- One page of the jobs whose leases ran out or whose attempts are used up; the cursor passes rows that nobody can repair.
SELECT
    run_at,
    job_id,
    lease_epoch,
    payment_id,
    attempts - releases >= max_attempts AS worn_out
FROM reconciliation_jobs
WHERE
    (
        (status = 'processing' AND lease_until <= statement_timestamp())
        OR (status = 'pending' AND attempts - releases >= max_attempts)
    )
    AND (run_at, job_id) > ($1, $2)
ORDER BY run_at, job_id
LIMIT $3
