-- Become the one relay, if nobody is or its lease ran out; each claim has an epoch of its own.
UPDATE controls
SET
    relay_owner = $1,
    relay_until = clock_timestamp() + make_interval(secs => $2),
    relay_epoch = relay_epoch + 1
WHERE relay_owner IS NULL OR relay_until < clock_timestamp()
RETURNING relay_epoch
