-- One dead letter with its bytes.
SELECT status, received_at, topic, partition, "offset", key, value, headers, reason, error, payment_id
FROM dead_letters
WHERE dead_letter_id = $1
