-- Lock the payments that jobs are about to change, in key order, and tell which row version each has.
SELECT payment_id, row_version
FROM payments
WHERE payment_id = ANY($1::text[])
ORDER BY payment_id
FOR NO KEY UPDATE
