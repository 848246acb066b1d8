"""Watches every step of the consumer's positions: each must account for the records it passes."""

from typing import Any

# Each commit's step, with how many records of the partition are accounted for below it and beyond
# it, as the transaction that makes it sees them.
WATCH = """
CREATE TABLE steps (
    step bigint GENERATED ALWAYS AS IDENTITY, topic text, partition integer,
    old bigint, new bigint, below bigint, beyond bigint
);
CREATE FUNCTION note_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO steps (topic, partition, old, new, below, beyond)
    SELECT NEW.topic, NEW.partition, OLD.next_offset, NEW.next_offset,
        count(*) FILTER (WHERE told."offset" < NEW.next_offset),
        count(*) FILTER (WHERE told."offset" >= NEW.next_offset)
    FROM (
        SELECT topic, partition, "offset" FROM payment_events
        UNION ALL SELECT topic, partition, "offset" FROM dead_letters
    ) AS told
    WHERE told.topic = NEW.topic AND told.partition = NEW.partition;
    RETURN NEW;
END $$;
CREATE TRIGGER watch_steps AFTER UPDATE ON consumer_offsets
    FOR EACH ROW WHEN (OLD.next_offset <> NEW.next_offset) EXECUTE FUNCTION note_step();
"""
READ = "SELECT topic, partition, old, new, below, beyond FROM steps ORDER BY step"


async def watch_steps(connection: Any) -> None:
    """Begin to watch; for records of which each has one row in the log or among dead letters."""
    await connection.execute(WATCH)


async def assert_contiguous(connection: Any) -> int:
    """Each step begins where the last one ended, and leaves no record behind or ahead of it.

    Gives the number of steps.
    """
    stood: dict[tuple[str, int], int] = {}
    steps = await connection.fetch(READ)
    for topic, number, old, new, below, beyond in steps:
        assert old == stood.get((topic, number), 0), (topic, number, old, stood)
        assert (below, beyond) == (new, 0), (topic, number, new, below, beyond)
        stood[topic, number] = new
    return len(steps)
