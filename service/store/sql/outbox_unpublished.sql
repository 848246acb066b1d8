-- The oldest outgoing events that are not published, in the order in which they have to go out.
SELECT outbox.outbox_id, outbox.topic, outbox.key, outbox.headers, outbox.value, outbox.created_at
FROM outbox
WHERE outbox.published_at IS NULL
ORDER BY outbox.outbox_id
LIMIT $1
