-- The bytes of dead letters, for the copies that go to the dead-letter topic.
SELECT dead_letter_id, topic, partition, "offset", key, value, headers, reason, error
FROM dead_letters
WHERE dead_letter_id = ANY($1::bigint[])
