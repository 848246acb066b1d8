"""Halves of a batch move each position on exactly as the whole does."""

from aiokafka import ConsumerRecord

from service.ingest.batch import Batch, Item, Refusal, Span
from service.store.offsets import Move, Partition

A, B = Partition("a", 0), Partition("b", 0)
REFUSAL = Refusal("not_json", "bad", None)


def item(partition: Partition, offset: int) -> Item:
    record: ConsumerRecord[bytes, bytes] = ConsumerRecord(
        partition.topic, partition.number, offset, 0, 0, b"k", b"v", None, 0, 0, ()
    )
    return Item(record, REFUSAL)


def batch() -> Batch:
    return Batch(
        items=[item(A, 3), item(A, 7), item(A, 8), item(B, 0)],
        spans={A: Span(2, 10, 10, caught_up=True), B: Span(0, 1)},
        tombstones=3,
    )


def test_halves_meet_where_the_second_begins() -> None:
    first, second = batch().halves()
    assert first.moves == [Move(A, 2, 8)]
    assert second.moves == [Move(A, 8, 10, caught_up=True), Move(B, 0, 1)]
    assert first.tombstones + second.tombstones == 3


def test_partition_without_records_in_the_second_half_is_done_in_the_first() -> None:
    whole = Batch(items=[item(B, 0), item(A, 3)], spans={A: Span(2, 10), B: Span(0, 4)})
    first, second = whole.halves()
    assert first.moves == [Move(A, 2, 3), Move(B, 0, 4)]
    assert second.moves == [Move(A, 3, 10)]


def test_halving_down_to_single_records_keeps_positions_contiguous() -> None:
    waiting, singles = [batch()], []
    while waiting:
        part = waiting.pop(0)
        if len(part.items) == 1:
            singles.append(part)
        else:
            waiting[:0] = part.halves()
    stored = {A: 2, B: 0}
    for part in singles:
        for move in part.moves:
            assert move.expected == stored[move.partition]
            stored[move.partition] = move.next_offset
    assert stored == {A: 10, B: 1}
