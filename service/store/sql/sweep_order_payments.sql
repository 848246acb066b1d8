-- The payments of some orders, $2 an order at most, that keep money or have a case of a duplicate.
SELECT payment.payment_id
FROM unnest($1::text[]) AS sought (order_id)
CROSS JOIN LATERAL (
    SELECT kept.payment_id
    FROM payments AS kept
    WHERE
        kept.order_id = sought.order_id
        AND (
            kept.captured_minor > kept.refunded_minor
            OR EXISTS (
                SELECT FROM discrepancies AS held
                WHERE
                    held.payment_id = kept.payment_id
                    AND held.kind = 'DUPLICATE_CAPTURE'
                    AND held.holds
            )
        )
    LIMIT $2
) AS payment
