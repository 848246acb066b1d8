-- For how many seconds the oldest lease that ran out has been waiting for somebody to see it; 0 if there is none.
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(lease_until))::double precision, 0)
FROM reconciliation_jobs
WHERE status = 'processing' AND lease_until <= statement_timestamp()
