-- Change what operators set, only over the version that they saw.
UPDATE controls
SET
    healing_paused = coalesce($2::boolean, healing_paused),
    mode = coalesce($3::text, mode),
    version = version + 1
WHERE version = $1
