-- What the sweeps need: since when a status stands, indexes of the payments that may be waited for too long,
-- and how far the log has been read for orders that were paid twice.

ALTER TABLE payments ADD COLUMN status_since timestamptz;

-- Only where it is asked for before the next change of the status sets it.
UPDATE payments SET status_since = updated_at WHERE status = 'succeeded' AND erp_status = 'pending';

-- Neither holds a column that changes without leaving the index: other updates stay HOT.
CREATE INDEX payments_unsettled ON payments (status_since, payment_id)
    WHERE status = 'succeeded' AND erp_status = 'pending';
CREATE INDEX payments_unknown_to_erp ON payments (created_at, payment_id) WHERE erp_status IS NULL;

ALTER TABLE controls ADD COLUMN orders_swept_log_id bigint NOT NULL DEFAULT 0;
