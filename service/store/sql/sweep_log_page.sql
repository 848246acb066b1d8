-- Read up to $3 log rows after $1, those before the horizon $2: how many, the last, and the orders whose captures they may have changed.
WITH page AS MATERIALIZED (
    SELECT
        log_id, payment_id, outcome, changes,
        bool_or(received_at >= $2) OVER (ORDER BY log_id) AS too_young
    FROM (
        SELECT log_id, payment_id, outcome, changes, received_at
        FROM payment_events
        WHERE log_id > $1
        ORDER BY log_id
        LIMIT $3
    ) AS next
),
moved AS (
    SELECT DISTINCT payment_id, changes -> 'order_id' ->> 0 AS order_left
    FROM page
    WHERE
        NOT too_young
        AND outcome = 'applied'
        AND changes ?| ARRAY['order_id', 'captured_minor', 'refunded_minor']
),
orders AS (
    SELECT payment.order_id
    FROM moved
    JOIN payments AS payment ON payment.payment_id = moved.payment_id
    WHERE payment.order_id IS NOT NULL
    UNION
    SELECT order_left FROM moved WHERE order_left IS NOT NULL
)
SELECT
    (SELECT count(*) FROM page WHERE NOT too_young) AS row_count,
    (SELECT max(log_id) FROM page WHERE NOT too_young) AS last_log_id,
    ARRAY(
        SELECT orders.order_id
        FROM orders
        WHERE
            2 = (
                SELECT count(*)
                FROM (
                    SELECT
                    FROM payments AS keeping
                    WHERE
                        keeping.order_id = orders.order_id
                        AND keeping.captured_minor > keeping.refunded_minor
                    LIMIT 2
                ) AS two
            )
            OR EXISTS (
                SELECT
                FROM payments AS payment
                JOIN discrepancies AS held ON held.payment_id = payment.payment_id
                WHERE
                    payment.order_id = orders.order_id
                    AND held.kind = 'DUPLICATE_CAPTURE'
                    AND held.holds
                    AND held.details ? 'order_id'
            )
        ORDER BY orders.order_id
    ) AS orders
