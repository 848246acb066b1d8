-- The next payment ids that have a row or a log, in key order.
SELECT payment_id
FROM (
    (SELECT payment_id FROM payments WHERE payment_id > $1 ORDER BY payment_id LIMIT $2)
    UNION
    (SELECT DISTINCT payment_id FROM payment_events WHERE payment_id > $1 ORDER BY payment_id LIMIT $2)
) AS known
ORDER BY payment_id
LIMIT $2
