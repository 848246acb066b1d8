-- End a job whose attempts are used up, if nobody holds it; the epoch stays.
WITH died AS (
    UPDATE reconciliation_jobs
    SET
        status = 'dead',
        finished_at = clock_timestamp(),
        lease_owner = NULL,
        lease_until = NULL,
        last_error = CASE status WHEN 'processing' THEN 'the lease ran out' ELSE last_error END
    WHERE
        job_id = $1
        AND lease_epoch = $2
        AND attempts - releases >= max_attempts
        AND (status = 'pending' OR (status = 'processing' AND lease_until <= clock_timestamp()))
    RETURNING job_id, lease_epoch
),
closed AS (
    UPDATE reconciliation_attempts AS attempt
    SET finished_at = clock_timestamp(), outcome = 'expired', error = 'the lease ran out'
    FROM died
    WHERE
        attempt.job_id = died.job_id
        AND attempt.lease_epoch = died.lease_epoch
        AND attempt.finished_at IS NULL
)
SELECT count(*) FROM died
