-- Takes every table of the first release away: for development only, it destroys the books.

DROP TABLE controls, consumer_offsets, outbox, dead_letters, discrepancies, reconciliation_attempts,
    reconciliation_jobs, payment_events, psp_payments, payments;
