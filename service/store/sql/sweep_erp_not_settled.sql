-- Lock payments that succeeded $1 seconds ago or before and are pending in the ERP, oldest first; those with a case already are left out.
SELECT payment.payment_id
FROM payments AS payment
WHERE
    payment.status = 'succeeded'
    AND payment.erp_status = 'pending'
    AND payment.status_since <= statement_timestamp() - make_interval(secs => $1)
    AND NOT EXISTS (
        SELECT FROM discrepancies AS held
        WHERE held.payment_id = payment.payment_id AND held.kind = 'ERP_NOT_SETTLED' AND held.holds
    )
ORDER BY payment.status_since, payment.payment_id
LIMIT $2
FOR NO KEY UPDATE OF payment SKIP LOCKED
