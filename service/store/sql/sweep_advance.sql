-- Note how far the log has been swept for orders, unless another process was faster.
UPDATE controls SET orders_swept_log_id = $2 WHERE orders_swept_log_id = $1
