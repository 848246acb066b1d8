-- The next wanted dead letters in the order of their topics, without their bytes.
SELECT dead_letter_id, topic, partition, "offset", reason, error, payment_id, status, received_at, octet_length(value)
FROM dead_letters
WHERE ($1::bigint[] IS NULL OR dead_letter_id = ANY($1))
    AND ($2::text IS NULL OR status = $2)
    AND ($3::text IS NULL OR reason = $3)
    AND ($4::text IS NULL OR topic = $4)
    AND ($5::text IS NULL OR payment_id = $5)
    AND ($6::timestamptz IS NULL OR received_at >= $6)
    AND ($7::timestamptz IS NULL OR received_at < $7)
    AND (topic, partition, "offset", dead_letter_id) > ($8, $9, $10, $11)
    AND dead_letter_id <= $12
ORDER BY topic, partition, "offset", dead_letter_id
LIMIT $13
