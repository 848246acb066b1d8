-- How many of the wanted dead letters have each reason, and up to which id they reach.
SELECT reason, count(*), max(dead_letter_id)
FROM dead_letters
WHERE ($1::bigint[] IS NULL OR dead_letter_id = ANY($1))
    AND ($2::text IS NULL OR status = $2)
    AND ($3::text IS NULL OR reason = $3)
    AND ($4::text IS NULL OR topic = $4)
    AND ($5::text IS NULL OR payment_id = $5)
    AND ($6::timestamptz IS NULL OR received_at >= $6)
    AND ($7::timestamptz IS NULL OR received_at < $7)
GROUP BY reason
ORDER BY count(*) DESC, reason
