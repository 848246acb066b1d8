-- Give a dead letter its next status, if it still has the one that was read.
UPDATE dead_letters
SET status = $3
WHERE dead_letter_id = $1 AND status = $2
