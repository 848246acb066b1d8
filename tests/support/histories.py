"""Generators: sets of events of one payment in which no version comes with two contents."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from schemas.money import Money
from service.domain.events import SourceEvent
from tests.unit import domain_events as make

ERP_STATUSES = ("pending", "paid", "cancelled", "refunded")
PSP_STATUSES = ("pending", "authorised", "succeeded", "failed", "cancelled", "expired")
REFERENCES = ("ch_1", "ch_2", "ch_3")

amounts = st.sampled_from(
    [Money(1000, "EUR"), Money(999, "EUR"), Money(1000, "USD"), Money(0, "EUR")]
)
sums = st.sampled_from([0, 1, 500, 999, 1000, 1001])
times = st.integers(0, 3).map(lambda hours: make.NOW.replace(hour=hours))

psp_fields: dict[str, st.SearchStrategy[Any]] = {
    "status": st.sampled_from(PSP_STATUSES),
    "amount": amounts,
    "captured_minor": st.none() | sums,
    "refunded_minor": st.just(0) | sums,
    "disputed_minor": st.just(0) | sums,
    "failure_code": st.none() | st.just("declined"),
}
erp_fields: dict[str, st.SearchStrategy[Any]] = {
    "order_id": st.sampled_from(["SO-1", "SO-2"]),
    "status": st.sampled_from(ERP_STATUSES),
    "amount": amounts,
    "psp_reference": st.none() | st.sampled_from(REFERENCES),
}
versions = st.tuples(st.integers(0, 1), st.integers(0, 5))


@st.composite
def erp_events(draw: st.DrawFn, version: tuple[int, int]) -> SourceEvent:
    """A snapshot or a patch of the ERP under `version`."""
    epoch, number = version
    if draw(st.booleans()):
        return make.erp(
            number,
            draw(erp_fields["status"]),
            amount=draw(amounts),
            epoch=epoch,
            psp_reference=draw(erp_fields["psp_reference"]),
            time=draw(times),
        )
    patch = draw(st.fixed_dictionaries({}, optional=erp_fields))
    return make.erp_patch(number, epoch=epoch, **patch)


@st.composite
def psp_events(draw: st.DrawFn, reference: str, version: tuple[int, int]) -> SourceEvent:
    """A snapshot or a patch of one PSP payment under `version`; a patch may be empty."""
    epoch, number = version
    if draw(st.booleans()):
        book = draw(st.fixed_dictionaries(psp_fields))
        time = draw(times)
        return make.psp(number, reference=reference, epoch=epoch, time=time, **book)
    patch = draw(st.fixed_dictionaries({}, optional=psp_fields))
    return make.psp_patch(number, reference=reference, epoch=epoch, **patch)


@st.composite
def agreeing_events(draw: st.DrawFn) -> list[SourceEvent]:
    """Events of one payment from both sources, each version of a stream with one content."""
    events = [draw(erp_events(each)) for each in draw(st.sets(versions, max_size=4))]
    for reference in draw(st.sets(st.sampled_from(REFERENCES), max_size=3)):
        taken = draw(st.sets(versions, min_size=1, max_size=5))
        events.extend(draw(psp_events(reference, version)) for version in taken)
    return events


@st.composite
def conflicting_events(draw: st.DrawFn) -> list[SourceEvent]:
    """Events in which a version may come with more than one content."""
    events = draw(agreeing_events())
    again = draw(st.lists(versions, max_size=3))
    return [*events, *(draw(psp_events("ch_1", version)) for version in again)]


@st.composite
def deliveries(draw: st.DrawFn, events: Sequence[SourceEvent]) -> list[SourceEvent]:
    """`events` in any order, some of them more than once."""
    doubled = draw(st.lists(st.sampled_from(events), max_size=4)) if events else []
    return draw(st.permutations([*events, *doubled]))


@st.composite
def batches(draw: st.DrawFn, events: Sequence[SourceEvent]) -> list[list[SourceEvent]]:
    """`events` in their order, cut anywhere."""
    cuts = sorted(draw(st.sets(st.integers(0, len(events)), max_size=4)))
    starts, ends = [0, *cuts], [*cuts, len(events)]
    return [list(events[start:end]) for start, end in zip(starts, ends, strict=True)]
