-- How many of the jobs $1 were completed by another process than the one with pid $2.
SELECT count(*)
FROM reconciliation_jobs AS job
WHERE job.job_id = ANY($1::bigint[]) AND job.status = 'completed'
    AND EXISTS (
        SELECT FROM reconciliation_attempts AS attempt
        WHERE attempt.job_id = job.job_id
            AND attempt.outcome = job.outcome
            AND split_part(attempt.lease_owner, '/', 2) <> $2
    )
