-- The payments that have a PSP payment with one of some references.
SELECT known.psp, known.psp_reference, known.payment_id
FROM psp_payments AS known
JOIN unnest($1::text[], $2::text[]) AS asked (psp, psp_reference)
    ON known.psp_reference = asked.psp_reference AND known.psp = asked.psp
