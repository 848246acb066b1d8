-- Every table of the first release. Operators query them, so names are a contract.
--
-- A source's version and epoch start at (0, -1): nothing seen. Times come from the database's clock alone.
-- No column that a heartbeat or an event changes is indexed without need, so those UPDATEs stay HOT.

CREATE TABLE payments (
    payment_id text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL DEFAULT 'pending',
    row_version bigint NOT NULL DEFAULT 0,
    order_id text COLLATE "C",
    -- what the ERP last said: version of the last snapshot, and field -> [epoch, version] of later patches
    erp_epoch bigint NOT NULL DEFAULT 0,
    erp_version bigint NOT NULL DEFAULT -1,
    erp_patched jsonb,
    erp_status text COLLATE "C",
    erp_amount_minor bigint,
    erp_currency text COLLATE "C",
    erp_psp text COLLATE "C",
    erp_psp_reference text COLLATE "C",
    erp_time timestamptz,
    erp_conflict boolean NOT NULL DEFAULT false,
    -- the deciding PSP payment, observation included
    psp text COLLATE "C",
    psp_reference text COLLATE "C",
    psp_status text COLLATE "C",
    psp_amount_minor bigint,
    psp_currency text COLLATE "C",
    captured_minor bigint NOT NULL DEFAULT 0,
    refunded_minor bigint NOT NULL DEFAULT 0,
    disputed_minor bigint NOT NULL DEFAULT 0,
    -- poll bookkeeping: changes here do not raise row_version
    pending_since timestamptz,
    checks integer NOT NULL DEFAULT 0,
    next_check_at timestamptz,
    not_found_since timestamptz,
    -- when the PSP last gave a final answer for the present status
    final_answer_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT payments_pkey PRIMARY KEY (payment_id),
    CONSTRAINT payments_payment_id_length CHECK (char_length(payment_id) BETWEEN 1 AND 128),
    CONSTRAINT payments_status_known CHECK (status IN (
        'pending', 'authorised', 'succeeded', 'failed', 'cancelled', 'expired',
        'partially_refunded', 'refunded', 'disputed')),
    CONSTRAINT payments_money_not_negative CHECK (
        erp_amount_minor >= 0 AND psp_amount_minor >= 0
        AND captured_minor >= 0 AND refunded_minor >= 0 AND disputed_minor >= 0)
) WITH (fillfactor = 80);

CREATE INDEX payments_due ON payments (next_check_at, payment_id) WHERE next_check_at IS NOT NULL;
CREATE INDEX payments_order ON payments (order_id) WHERE order_id IS NOT NULL;

CREATE TABLE psp_payments (
    payment_id text COLLATE "C" NOT NULL,
    psp text COLLATE "C" NOT NULL,
    psp_reference text COLLATE "C" NOT NULL,
    row_version bigint NOT NULL DEFAULT 0,
    psp_epoch bigint NOT NULL DEFAULT 0,
    psp_version bigint NOT NULL DEFAULT -1,
    psp_patched jsonb,
    psp_status text COLLATE "C",
    psp_amount_minor bigint,
    psp_currency text COLLATE "C",
    captured_minor bigint NOT NULL DEFAULT 0,
    -- false: the source left captured_minor out, so it follows from status and amount
    captured_given boolean NOT NULL DEFAULT false,
    refunded_minor bigint NOT NULL DEFAULT 0,
    disputed_minor bigint NOT NULL DEFAULT 0,
    failure_code text,
    psp_time timestamptz,
    psp_conflict boolean NOT NULL DEFAULT false,
    -- what the PSP answered when it was asked and gave no version
    observed_status text COLLATE "C",
    observed_amount_minor bigint,
    observed_currency text COLLATE "C",
    observed_captured_minor bigint,
    observed_refunded_minor bigint,
    observed_disputed_minor bigint,
    observed_at timestamptz,
    -- a lesser event came after the observation: the next answer that agrees with the events ends it
    observed_doubted boolean NOT NULL DEFAULT false,
    CONSTRAINT psp_payments_pkey PRIMARY KEY (payment_id, psp, psp_reference),
    CONSTRAINT psp_payments_payment_fkey FOREIGN KEY (payment_id) REFERENCES payments (payment_id),
    CONSTRAINT psp_payments_money_not_negative CHECK (
        psp_amount_minor >= 0 AND captured_minor >= 0 AND refunded_minor >= 0 AND disputed_minor >= 0
        AND observed_amount_minor >= 0 AND observed_captured_minor >= 0
        AND observed_refunded_minor >= 0 AND observed_disputed_minor >= 0)
) WITH (fillfactor = 80);

CREATE TABLE payment_events (
    log_id bigint GENERATED ALWAYS AS IDENTITY,
    payment_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    actor text NOT NULL,
    event_id text,
    psp text COLLATE "C",
    psp_reference text COLLATE "C",
    epoch bigint,
    version bigint,
    changekind text COLLATE "C",
    outcome text COLLATE "C" NOT NULL,
    -- field -> [old, new]; a stale event names both versions here and changes nothing else
    changes jsonb NOT NULL DEFAULT '{}',
    data jsonb,
    -- digest of the known fields after defaults and the changekind: tells a duplicate from a conflict
    digest bytea,
    occurred_at timestamptz,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    topic text,
    partition integer,
    "offset" bigint,
    row_version bigint NOT NULL,
    trace_id text,
    CONSTRAINT payment_events_pkey PRIMARY KEY (log_id),
    CONSTRAINT payment_events_kind_known CHECK (kind IN ('erp', 'psp', 'heal', 'operator')),
    CONSTRAINT payment_events_outcome_known CHECK (outcome IN ('applied', 'stale', 'conflict', 'shadow'))
);

CREATE INDEX payment_events_payment ON payment_events (payment_id, log_id);

CREATE TABLE reconciliation_jobs (
    job_id bigint GENERATED ALWAYS AS IDENTITY,
    payment_id text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL DEFAULT 'pending',
    run_at timestamptz NOT NULL DEFAULT now(),
    lease_owner text,
    lease_until timestamptz,
    lease_epoch bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    releases integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 8,
    outcome text COLLATE "C",
    last_error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CONSTRAINT reconciliation_jobs_pkey PRIMARY KEY (job_id),
    CONSTRAINT reconciliation_jobs_status_known CHECK (
        status IN ('pending', 'processing', 'completed', 'dead')),
    CONSTRAINT reconciliation_jobs_outcome_known CHECK (outcome IN (
        'healed', 'consistent', 'still_pending', 'discrepancy', 'not_found', 'superseded', 'shadow')),
    CONSTRAINT reconciliation_jobs_lease_whole CHECK (
        (status = 'processing') = (lease_owner IS NOT NULL)
        AND (status = 'processing') = (lease_until IS NOT NULL)),
    CONSTRAINT reconciliation_jobs_attempts_bounded CHECK (attempts - releases <= max_attempts)
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX reconciliation_jobs_one_open ON reconciliation_jobs (payment_id)
    WHERE status IN ('pending', 'processing');
CREATE INDEX reconciliation_jobs_open ON reconciliation_jobs (run_at, job_id)
    WHERE status IN ('pending', 'processing');
CREATE INDEX reconciliation_jobs_payment ON reconciliation_jobs (payment_id, job_id);

CREATE TABLE reconciliation_attempts (
    job_id bigint NOT NULL,
    lease_epoch bigint NOT NULL,
    attempt integer NOT NULL,
    lease_owner text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    outcome text COLLATE "C",
    error text,
    CONSTRAINT reconciliation_attempts_pkey PRIMARY KEY (job_id, lease_epoch),
    CONSTRAINT reconciliation_attempts_job_fkey FOREIGN KEY (job_id)
        REFERENCES reconciliation_jobs (job_id) ON DELETE CASCADE,
    CONSTRAINT reconciliation_attempts_outcome_known CHECK (outcome IN (
        'healed', 'consistent', 'still_pending', 'discrepancy', 'not_found', 'superseded', 'shadow',
        'released', 'expired', 'lost', 'failed')),
    CONSTRAINT reconciliation_attempts_closed_whole CHECK ((outcome IS NULL) = (finished_at IS NULL))
) WITH (fillfactor = 80);

CREATE TABLE discrepancies (
    discrepancy_id bigint GENERATED ALWAYS AS IDENTITY,
    payment_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL DEFAULT 'open',
    -- true while the facts still disagree: a case that a person closed is not opened again by the same facts
    holds boolean NOT NULL DEFAULT true,
    amount_at_risk_minor bigint,
    currency text COLLATE "C",
    details jsonb NOT NULL DEFAULT '{}',
    version bigint NOT NULL DEFAULT 0,
    opened_at timestamptz NOT NULL DEFAULT now(),
    resolved_at timestamptz,
    resolved_by text,
    resolution text,
    CONSTRAINT discrepancies_pkey PRIMARY KEY (discrepancy_id),
    CONSTRAINT discrepancies_payment_fkey FOREIGN KEY (payment_id) REFERENCES payments (payment_id),
    CONSTRAINT discrepancies_status_known CHECK (status IN ('open', 'resolved', 'ignored')),
    CONSTRAINT discrepancies_kind_known CHECK (kind IN (
        'AMOUNT_MISMATCH', 'CURRENCY_MISMATCH', 'PAID_AFTER_CANCEL', 'DUPLICATE_CAPTURE', 'MISSING_AT_PSP',
        'MISSING_AT_ERP', 'VERSION_CONFLICT', 'STUCK_PENDING', 'ERP_PAID_PSP_NOT', 'REFUND_MISSING',
        'ERP_NOT_SETTLED'))
);

CREATE UNIQUE INDEX discrepancies_one_held ON discrepancies (payment_id, kind) WHERE holds;
CREATE INDEX discrepancies_open ON discrepancies (kind, opened_at) WHERE status = 'open';

CREATE TABLE dead_letters (
    dead_letter_id bigint GENERATED ALWAYS AS IDENTITY,
    topic text COLLATE "C" NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    key bytea,
    value bytea,
    headers jsonb NOT NULL DEFAULT '[]',
    reason text COLLATE "C" NOT NULL,
    error text NOT NULL,
    payment_id text COLLATE "C",
    status text COLLATE "C" NOT NULL DEFAULT 'parked',
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT dead_letters_pkey PRIMARY KEY (dead_letter_id),
    CONSTRAINT dead_letters_status_known CHECK (status IN ('parked', 'replayed', 'discarded'))
);

-- Once a record; the content is part of it, since a topic that was made anew uses its offsets again.
CREATE UNIQUE INDEX dead_letters_one_a_record
    ON dead_letters (topic, partition, "offset", md5(coalesce(value, '')));
CREATE INDEX dead_letters_parked ON dead_letters (received_at) WHERE status = 'parked';

CREATE TABLE outbox (
    outbox_id bigint GENERATED ALWAYS AS IDENTITY,
    topic text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    headers jsonb NOT NULL DEFAULT '{}',
    value jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    published_at timestamptz,
    CONSTRAINT outbox_pkey PRIMARY KEY (outbox_id)
);

CREATE INDEX outbox_unpublished ON outbox (outbox_id) WHERE published_at IS NULL;

CREATE TABLE consumer_offsets (
    consumer_group text COLLATE "C" NOT NULL,
    topic text COLLATE "C" NOT NULL,
    partition integer NOT NULL,
    next_offset bigint NOT NULL,
    -- the highest next_offset ever stored: below it a replay counts its stale events and logs none
    highest_offset bigint NOT NULL DEFAULT 0,
    -- when the lag of the first start was worked off; healing waits for it
    caught_up_at timestamptz,
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT consumer_offsets_pkey PRIMARY KEY (consumer_group, topic, partition),
    CONSTRAINT consumer_offsets_not_negative CHECK (next_offset >= 0)
) WITH (fillfactor = 80);

CREATE TABLE controls (
    control_id smallint NOT NULL DEFAULT 1,
    healing_paused boolean NOT NULL DEFAULT false,
    mode text COLLATE "C" NOT NULL DEFAULT 'enforce',
    heals_left bigint NOT NULL DEFAULT 0,
    heals_minute timestamptz NOT NULL DEFAULT '-infinity',
    relay_owner text,
    relay_until timestamptz,
    relay_epoch bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL DEFAULT 0,
    CONSTRAINT controls_pkey PRIMARY KEY (control_id),
    CONSTRAINT controls_one_row CHECK (control_id = 1),
    CONSTRAINT controls_mode_known CHECK (mode IN ('enforce', 'shadow')),
    CONSTRAINT controls_heals_not_negative CHECK (heals_left >= 0)
) WITH (fillfactor = 50);

INSERT INTO controls DEFAULT VALUES;
