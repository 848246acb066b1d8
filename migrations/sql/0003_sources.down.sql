-- Takes away what sources as they are need; facts are lost, their events and payments stay.

ALTER TABLE payments DROP COLUMN check_wanted;

DROP INDEX psp_payments_reference;

DROP TABLE psp_facts;
