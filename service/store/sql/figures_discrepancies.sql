-- How many discrepancies of each kind wait for a person.
SELECT kind, count(*) FROM discrepancies WHERE status = 'open' GROUP BY kind
