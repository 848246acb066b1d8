"""The workload holds what a fault run needs, and is the same each time it is told."""

import itertools
from collections import Counter

import pytest

from schemas.refusal import Reason
from service.sandbox.psp_server import PspServer
from tests.faults.checker import Sent
from tests.faults.checking.fates import fates_of
from tests.faults.scenes import OWN_PLOTS
from tests.faults.workload import PORTION_MAX, Workload, endless

PAYMENTS = 200


@pytest.fixture(scope="module", name="workload")
def one_workload() -> Workload:
    return Workload(7, PAYMENTS)


def test_same_seed_gives_the_same_records_and_another_seed_others(workload: Workload) -> None:
    again = Workload(7, PAYMENTS)
    assert again.records == workload.records
    assert again.told == workload.told
    assert again.psp_answers == workload.psp_answers
    assert Workload(8, PAYMENTS).records != workload.records


def test_portions_are_small_and_give_every_record_in_order(workload: Workload) -> None:
    portions = list(workload.portions())
    assert tuple(itertools.chain.from_iterable(portions)) == workload.records
    assert {len(portion) > 0 for portion in portions} == {True}
    assert max(len(portion) for portion in portions) <= PORTION_MAX


def test_every_outcome_of_a_record_comes(workload: Workload) -> None:
    sent = [Sent(record, record.source, 0, n) for n, record in enumerate(workload.records)]
    outcomes = Counter(fate.outcome for fate in fates_of(sent, workload.told.refusals))
    assert set(outcomes) == {
        *("applied", "stale", "duplicate", "conflict"),
        *("refused", "tombstone"),
    }
    assert outcomes["applied"] > len(workload.records) / 2


def test_every_payment_has_an_expectation_and_all_but_unknown_ones_an_answer() -> None:
    workload = Workload(1, len(OWN_PLOTS) * 4)
    answered = {payment_id for payment_id, _ in workload.psp_answers}
    unknown = workload.expected.keys() - answered
    assert len(workload.expected) == len(OWN_PLOTS) * 4
    assert len(unknown) == 1
    assert {workload.expected[payment_id].status for payment_id in unknown} == {"pending"}
    assert not [answer for _, answer in workload.psp_answers if "entityversion" in answer]


def test_enough_bad_records_have_many_reasons() -> None:
    told = Workload(3, 2_000).told
    reasons = set(told.refusals.values())
    assert reasons == set(Reason) - {Reason.TOO_LARGE}


async def test_psp_knows_the_last_word_of_every_payment(workload: Workload) -> None:
    async with PspServer() as psp:
        workload.tell(psp)
        held = dict(workload.psp_answers)
        assert {key: psp._answers[key] for key in held} == held


def test_endless_workloads_share_no_payment() -> None:
    one, two, three = itertools.islice(endless(5, payments=40), 3)
    assert not one.expected.keys() & two.expected.keys()
    assert not two.expected.keys() & three.expected.keys()
    assert one.records != two.records
