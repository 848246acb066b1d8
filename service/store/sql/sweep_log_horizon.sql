-- How far the log has been swept, and the time before which no running transaction can have written a row of it.
SELECT
    (SELECT orders_swept_log_id FROM controls) AS log_id,
    least(statement_timestamp(), (
        SELECT min(xact_start)
        FROM pg_stat_activity
        WHERE
            datname = current_database()
            AND backend_type = 'client backend'
            AND backend_xid IS NOT NULL
    )) AS horizon
