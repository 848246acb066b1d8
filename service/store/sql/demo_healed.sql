-- How many of the payments $1 a job healed, and the longest time from a job's making to the heal.
SELECT
    count(DISTINCT payment_id) AS healed,
    coalesce(extract(epoch FROM max(finished_at - created_at)), 0)::float8 AS slowest_seconds
FROM reconciliation_jobs
WHERE payment_id = ANY($1::text[]) AND outcome = 'healed'
