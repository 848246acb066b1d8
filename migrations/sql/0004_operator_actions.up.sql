-- What operators change that belongs to no single payment: positions, dead letters, controls. Written in the
-- transaction of the change, never changed after.
CREATE TABLE operator_actions (
    action_id bigint GENERATED ALWAYS AS IDENTITY,
    -- who: a name given with the command, else the account and the host
    actor text NOT NULL,
    action text COLLATE "C" NOT NULL,
    -- what it was done to: "topic/partition", a dead letter's id, "controls"
    subject text COLLATE "C" NOT NULL,
    before jsonb NOT NULL DEFAULT '{}',
    after jsonb NOT NULL DEFAULT '{}',
    note text,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT operator_actions_pkey PRIMARY KEY (action_id)
);

CREATE INDEX operator_actions_subject ON operator_actions (subject, action_id);
