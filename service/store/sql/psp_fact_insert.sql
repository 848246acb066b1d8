-- Keep facts, each once: of two deliveries of one fact the first stays.
INSERT INTO psp_facts (
    payment_id, psp, psp_reference, original_reference, event_code, success,
    currency, minor, event_date, reason, action, topic, partition, "offset"
)
SELECT *
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[],
    $7::text[], $8::bigint[], $9::timestamptz[], $10::text[], $11::text[], $12::text[], $13::integer[], $14::bigint[]
)
ON CONFLICT ON CONSTRAINT psp_facts_pkey DO NOTHING
