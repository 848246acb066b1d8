-- The limits that the server keeps for this session, in milliseconds; 0 is none.
SELECT name, setting::bigint
FROM pg_settings
WHERE name IN ('lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout')
