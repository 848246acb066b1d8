-- Stay the relay, if this claim's lease has not run out or been taken.
UPDATE controls
SET relay_until = clock_timestamp() + make_interval(secs => $3)
WHERE relay_owner = $1 AND relay_epoch = $2 AND relay_until > clock_timestamp()
