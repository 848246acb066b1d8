-- Stop being the relay, so that another can begin at once.
UPDATE controls
SET relay_owner = NULL, relay_until = NULL
WHERE relay_owner = $1 AND relay_epoch = $2
