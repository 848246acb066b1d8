-- Write the PSP payments that changed, each only if it still has the row version that was read.
UPDATE psp_payments AS psp_payment
SET
    row_version = new.row_version + 1,
    psp_epoch = new.psp_epoch,
    psp_version = new.psp_version,
    psp_patched = new.psp_patched,
    psp_status = new.psp_status,
    psp_amount_minor = new.psp_amount_minor,
    psp_currency = new.psp_currency,
    captured_minor = new.captured_minor,
    captured_given = new.captured_given,
    refunded_minor = new.refunded_minor,
    disputed_minor = new.disputed_minor,
    failure_code = new.failure_code,
    psp_time = new.psp_time,
    psp_conflict = new.psp_conflict,
    observed_status = new.observed_status,
    observed_amount_minor = new.observed_amount_minor,
    observed_currency = new.observed_currency,
    observed_captured_minor = new.observed_captured_minor,
    observed_refunded_minor = new.observed_refunded_minor,
    observed_disputed_minor = new.observed_disputed_minor,
    observed_at = new.observed_at,
    observed_doubted = new.observed_doubted
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[],
    $5::bigint[], $6::bigint[], $7::jsonb[], $8::text[], $9::bigint[], $10::text[],
    $11::bigint[], $12::boolean[], $13::bigint[], $14::bigint[], $15::text[], $16::timestamptz[], $17::boolean[],
    $18::text[], $19::bigint[], $20::text[], $21::bigint[],
    $22::bigint[], $23::bigint[], $24::timestamptz[], $25::boolean[]
) AS new (
    payment_id, psp, psp_reference, row_version,
    psp_epoch, psp_version, psp_patched, psp_status, psp_amount_minor, psp_currency,
    captured_minor, captured_given, refunded_minor, disputed_minor, failure_code, psp_time, psp_conflict,
    observed_status, observed_amount_minor, observed_currency, observed_captured_minor,
    observed_refunded_minor, observed_disputed_minor, observed_at, observed_doubted
)
WHERE
    psp_payment.payment_id = new.payment_id
    AND psp_payment.psp = new.psp
    AND psp_payment.psp_reference = new.psp_reference
    AND psp_payment.row_version = new.row_version
