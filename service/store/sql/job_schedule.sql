-- Turn due payments into jobs, one open job a payment, and look again in a day in case a job should get lost.
WITH due AS MATERIALIZED (
    SELECT payment_id, row_version
    FROM payments
    WHERE next_check_at <= statement_timestamp()
    ORDER BY next_check_at, payment_id
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
),
inserted AS (
    INSERT INTO reconciliation_jobs (payment_id, reason, max_attempts)
    SELECT payment_id, 'due', $2
    FROM due
    ORDER BY payment_id
    ON CONFLICT (payment_id) WHERE status IN ('pending', 'processing') DO NOTHING
    RETURNING payment_id
),
moved AS (
    UPDATE payments AS payment
    SET next_check_at = statement_timestamp() + interval '1 day'
    FROM due
    WHERE payment.payment_id = due.payment_id AND payment.row_version = due.row_version
    RETURNING payment.payment_id
)
SELECT (SELECT count(*) FROM moved) AS due, (SELECT count(*) FROM inserted) AS inserted
