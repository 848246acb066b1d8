-- Takes away what the sweeps need; the cases that they opened stay.

ALTER TABLE controls DROP COLUMN orders_swept_log_id;

DROP INDEX payments_unknown_to_erp;
DROP INDEX payments_unsettled;

ALTER TABLE payments DROP COLUMN status_since;
