-- Put a position where an operator wants it, only from where it was read, so that no consumer's step is undone unseen.
UPDATE consumer_offsets
SET next_offset = $5, highest_offset = $6, updated_at = now()
WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND next_offset = $4
