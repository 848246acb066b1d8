-- What operators did to a dead letter, oldest first.
SELECT at, actor, action, after, note
FROM operator_actions
WHERE subject = $1 AND action LIKE 'dead_letters.%'
ORDER BY action_id
