-- Read the columns of payments that follow from the log.
SELECT
    payment_id, status, row_version,
    order_id, erp_epoch, erp_version, erp_patched, erp_status, erp_amount_minor, erp_currency,
    erp_psp, erp_psp_reference, erp_time, erp_conflict,
    psp, psp_reference, psp_status, psp_amount_minor, psp_currency,
    captured_minor, refunded_minor, disputed_minor
FROM payments
WHERE payment_id = ANY($1::text[])
