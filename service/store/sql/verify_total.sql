-- About how many payments there are, for a progress bar; -1 before the table was first analysed.
SELECT reltuples::bigint FROM pg_class WHERE oid = 'payments'::regclass
