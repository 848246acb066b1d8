-- Whether the lag of a group's first start has been worked off in every partition it knows.
SELECT count(*) > 0 AND bool_and(caught_up_at IS NOT NULL)
FROM consumer_offsets
WHERE consumer_group = $1
