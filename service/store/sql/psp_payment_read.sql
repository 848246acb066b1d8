-- Read the PSP payments of some payments; whoever writes them holds their payment's lock.
SELECT
    payment_id, psp, psp_reference, row_version,
    psp_epoch, psp_version, psp_patched, psp_status, psp_amount_minor, psp_currency,
    captured_minor, captured_given, refunded_minor, disputed_minor, failure_code, psp_time, psp_conflict,
    observed_status, observed_amount_minor, observed_currency, observed_captured_minor,
    observed_refunded_minor, observed_disputed_minor, observed_at, observed_doubted
FROM psp_payments
WHERE payment_id = ANY($1::text[])
ORDER BY payment_id, psp, psp_reference
