-- Note what an operator changed, in the transaction of the change.
INSERT INTO operator_actions (actor, action, subject, before, after, note)
VALUES ($1, $2, $3, $4, $5, $6)
