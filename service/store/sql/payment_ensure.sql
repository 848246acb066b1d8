-- Give each payment of a batch its row, in key order: writers with crossed batches never wait in a circle.
INSERT INTO payments (payment_id)
SELECT payment_id
FROM unnest($1::text[]) AS wanted (payment_id)
ORDER BY payment_id COLLATE "C"
ON CONFLICT (payment_id) DO NOTHING
