-- What sources as they are need: the facts of a PSP that sends neither state nor version, the way from a PSP's
-- reference to its payment, and payments whose PSP is to be asked though they are settled.

CREATE TABLE psp_facts (
    payment_id text COLLATE "C" NOT NULL,
    psp text COLLATE "C" NOT NULL,
    psp_reference text COLLATE "C" NOT NULL,
    event_code text COLLATE "C" NOT NULL,
    success boolean NOT NULL,
    -- empty: the fact modifies nothing
    original_reference text COLLATE "C" NOT NULL,
    currency text COLLATE "C" NOT NULL,
    -- ISO 4217's minor units, not the provider's own
    minor bigint NOT NULL,
    event_date timestamptz NOT NULL,
    reason text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- two deliveries of one fact are equal in these
    CONSTRAINT psp_facts_pkey
        PRIMARY KEY (payment_id, psp, psp_reference, event_code, success, original_reference),
    CONSTRAINT psp_facts_payment_fkey FOREIGN KEY (payment_id) REFERENCES payments (payment_id),
    CONSTRAINT psp_facts_money_not_negative CHECK (minor >= 0)
);

CREATE INDEX psp_payments_reference ON psp_payments (psp_reference, psp);

ALTER TABLE payments ADD COLUMN check_wanted boolean NOT NULL DEFAULT false;
