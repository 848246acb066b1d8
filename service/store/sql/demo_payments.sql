-- Every payment with its open discrepancies, to be compared with the story's truth.
SELECT
    payment_id, status, captured_minor, refunded_minor, disputed_minor, psp_currency, psp_reference,
    order_id, erp_status, erp_amount_minor, erp_currency,
    ARRAY(
        SELECT kind FROM discrepancies
        WHERE discrepancies.payment_id = payments.payment_id AND discrepancies.status = 'open'
        ORDER BY kind
    ) AS open_discrepancies
FROM payments
