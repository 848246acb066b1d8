-- The database's time: the only clock that decides.
SELECT now()
