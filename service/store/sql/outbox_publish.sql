-- Mark events as published, only while this claim of the relay's lease holds.
UPDATE outbox
SET published_at = clock_timestamp()
FROM controls
WHERE
    outbox.outbox_id = ANY($1::bigint[])
    AND outbox.published_at IS NULL
    AND controls.relay_owner = $2
    AND controls.relay_epoch = $3
    AND controls.relay_until > clock_timestamp()
