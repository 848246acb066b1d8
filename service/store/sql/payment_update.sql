-- Write the folded payments, each only if it still has the row version that was read.
UPDATE payments AS payment
SET
    status = new.status,
    row_version = new.row_version,
    order_id = new.order_id,
    erp_epoch = new.erp_epoch,
    erp_version = new.erp_version,
    erp_patched = new.erp_patched,
    erp_status = new.erp_status,
    erp_amount_minor = new.erp_amount_minor,
    erp_currency = new.erp_currency,
    erp_psp = new.erp_psp,
    erp_psp_reference = new.erp_psp_reference,
    erp_time = new.erp_time,
    erp_conflict = new.erp_conflict,
    pending_since = new.pending_since,
    checks = new.checks,
    next_check_at = new.next_check_at,
    not_found_since = new.not_found_since,
    final_answer_at = new.final_answer_at,
    psp = new.psp,
    psp_reference = new.psp_reference,
    psp_status = new.psp_status,
    psp_amount_minor = new.psp_amount_minor,
    psp_currency = new.psp_currency,
    captured_minor = new.captured_minor,
    refunded_minor = new.refunded_minor,
    disputed_minor = new.disputed_minor,
    status_since = new.status_since,
    check_wanted = new.check_wanted,
    updated_at = CASE WHEN new.row_version > new.read_version THEN now() ELSE payment.updated_at END
FROM unnest(
    $1::text[], $2::bigint[], $3::text[], $4::bigint[],
    $5::text[], $6::bigint[], $7::bigint[], $8::jsonb[], $9::text[], $10::bigint[], $11::text[],
    $12::text[], $13::text[], $14::timestamptz[], $15::boolean[],
    $16::timestamptz[], $17::integer[], $18::timestamptz[], $19::timestamptz[], $20::timestamptz[],
    $21::text[], $22::text[], $23::text[], $24::bigint[], $25::text[],
    $26::bigint[], $27::bigint[], $28::bigint[], $29::timestamptz[], $30::boolean[]
) AS new (
    payment_id, read_version, status, row_version,
    order_id, erp_epoch, erp_version, erp_patched, erp_status, erp_amount_minor, erp_currency,
    erp_psp, erp_psp_reference, erp_time, erp_conflict,
    pending_since, checks, next_check_at, not_found_since, final_answer_at,
    psp, psp_reference, psp_status, psp_amount_minor, psp_currency,
    captured_minor, refunded_minor, disputed_minor, status_since, check_wanted
)
WHERE payment.payment_id = new.payment_id AND payment.row_version = new.read_version
