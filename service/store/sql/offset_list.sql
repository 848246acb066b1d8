-- Read where a group stands in every partition that it has a row for.
SELECT topic, partition, next_offset, highest_offset, caught_up_at, updated_at
FROM consumer_offsets
WHERE consumer_group = $1
ORDER BY topic, partition
