-- Move positions on, each only from where this consumer believes it to be: the fence against a former owner.
WITH moves AS (
    SELECT topic, partition, expected, next_offset, caught_up
    FROM unnest($2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::boolean[])
        AS move (topic, partition, expected, next_offset, caught_up)
),
held AS MATERIALIZED (
    SELECT stored.topic, stored.partition
    FROM consumer_offsets AS stored
    JOIN moves ON moves.topic = stored.topic AND moves.partition = stored.partition
    WHERE stored.consumer_group = $1
    ORDER BY stored.topic, stored.partition
    FOR NO KEY UPDATE OF stored
)
UPDATE consumer_offsets AS stored
SET
    next_offset = moves.next_offset,
    highest_offset = greatest(stored.highest_offset, moves.next_offset),
    caught_up_at = CASE WHEN moves.caught_up THEN coalesce(stored.caught_up_at, now()) ELSE stored.caught_up_at END,
    updated_at = now()
FROM moves
JOIN held ON held.topic = moves.topic AND held.partition = moves.partition
WHERE
    stored.consumer_group = $1
    AND stored.topic = moves.topic
    AND stored.partition = moves.partition
    AND stored.next_offset = moves.expected
