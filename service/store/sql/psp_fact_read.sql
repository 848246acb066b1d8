-- Read all facts of some payments at some accounts; whoever adds to them holds the payments' locks.
SELECT
    fact.payment_id, fact.psp, fact.psp_reference, fact.original_reference, fact.event_code, fact.success,
    fact.currency, fact.minor, fact.event_date, fact.reason, fact.action
FROM psp_facts AS fact
JOIN unnest($1::text[], $2::text[]) AS wanted (psp, payment_id)
    ON fact.payment_id = wanted.payment_id AND fact.psp = wanted.psp
