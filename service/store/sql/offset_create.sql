-- Create the row of a partition that was never consumed; one that exists decides and stays.
INSERT INTO consumer_offsets (consumer_group, topic, partition, next_offset, highest_offset)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (consumer_group, topic, partition) DO NOTHING
