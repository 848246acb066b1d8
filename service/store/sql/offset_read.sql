-- Read where a group stands in a partition.
SELECT next_offset, highest_offset, caught_up_at
FROM consumer_offsets
WHERE consumer_group = $1 AND topic = $2 AND partition = $3
