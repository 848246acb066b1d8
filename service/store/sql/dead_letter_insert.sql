-- Park refused records with their bytes, and tell the relay to copy them to the dead-letter topic if one is set.
WITH parked AS (
    INSERT INTO dead_letters (topic, partition, "offset", key, value, headers, reason, error, payment_id)
    SELECT topic, partition, "offset", key, value, headers::jsonb, reason, error, payment_id
    FROM unnest(
        $2::text[], $3::integer[], $4::bigint[], $5::bytea[], $6::bytea[], $7::text[], $8::text[], $9::text[], $10::text[]
    ) AS record (topic, partition, "offset", key, value, headers, reason, error, payment_id)
    ORDER BY topic COLLATE "C", partition, "offset"
    ON CONFLICT (topic, partition, "offset", md5(coalesce(value, ''))) DO NOTHING
    RETURNING dead_letter_id
)
INSERT INTO outbox (topic, key, headers, value)
SELECT $1, dead_letter_id::text, '{}', jsonb_build_object('dead_letter_id', dead_letter_id)
FROM parked
WHERE $1::text IS NOT NULL
ORDER BY dead_letter_id
