-- The digest under which each asked version of a stream was taken in, from the log.
SELECT DISTINCT ON (event.payment_id, asked.psp, asked.psp_reference, event.epoch, event.version)
    event.payment_id,
    asked.psp,
    asked.psp_reference,
    event.epoch,
    event.version,
    event.digest
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
    AS asked (payment_id, psp, psp_reference, epoch, version)
JOIN payment_events AS event
    ON event.payment_id = asked.payment_id
    AND coalesce(event.psp, '') = asked.psp
    AND coalesce(event.psp_reference, '') = asked.psp_reference
    AND event.epoch = asked.epoch
    AND event.version = asked.version
WHERE event.outcome = 'applied' AND event.digest IS NOT NULL
ORDER BY
    event.payment_id, asked.psp, asked.psp_reference, event.epoch, event.version, event.log_id
