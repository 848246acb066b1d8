-- Lock payments that the PSP told of and the ERP did not within $1 seconds, oldest first; those with a case already are left out.
SELECT payment.payment_id
FROM payments AS payment
WHERE
    payment.erp_status IS NULL
    AND payment.erp_version = -1
    AND payment.erp_patched IS NULL
    AND payment.psp IS NOT NULL
    AND payment.created_at <= statement_timestamp() - make_interval(secs => $1)
    AND NOT EXISTS (
        SELECT FROM discrepancies AS held
        WHERE held.payment_id = payment.payment_id AND held.kind = 'MISSING_AT_ERP' AND held.holds
    )
ORDER BY payment.created_at, payment.payment_id
LIMIT $2
FOR NO KEY UPDATE OF payment SKIP LOCKED
