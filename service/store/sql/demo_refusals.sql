-- Dead letters by their reason.
SELECT reason, count(*) AS records FROM dead_letters GROUP BY reason ORDER BY reason
