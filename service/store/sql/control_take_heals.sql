-- Take up to $1 heals from this minute's allowance of $2, which is filled again when a new minute begins.
WITH held AS MATERIALIZED (
    SELECT
        control_id,
        date_trunc('minute', statement_timestamp()) AS minute,
        CASE
            WHEN heals_minute < date_trunc('minute', statement_timestamp()) THEN $2::bigint
            ELSE least(heals_left, $2::bigint)
        END AS heals_left
    FROM controls
    FOR NO KEY UPDATE
)
UPDATE controls
SET
    heals_left = held.heals_left - least($1::bigint, held.heals_left),
    heals_minute = greatest(controls.heals_minute, held.minute)
FROM held
WHERE controls.control_id = held.control_id
RETURNING least($1::bigint, held.heals_left)
