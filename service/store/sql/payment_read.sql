-- Read payments as they are, without a lock.
SELECT
    payment_id, status, row_version,
    order_id, erp_epoch, erp_version, erp_patched, erp_status, erp_amount_minor, erp_currency,
    erp_psp, erp_psp_reference, erp_time, erp_conflict,
    pending_since, checks, next_check_at, not_found_since, final_answer_at, created_at, status_since,
    check_wanted
FROM payments
WHERE payment_id = ANY($1::text[])
