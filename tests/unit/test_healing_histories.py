"""Whatever is lost, late, doubled or out of order: once all is delivered and healed, the payment is
the truth, or carries the discrepancy that says why not. `HISTORIES=n` tries more histories.
"""

import os
from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from schemas.money import Money
from service.domain.events import LogEntry, Outcome, Seen
from service.domain.fold import fold
from service.domain.healing import Found, decide, superseded
from service.domain.payment import Payment
from service.reconcile.questions import question_of
from tests.unit.domain_events import NOW, RULES, digests
from tests.unit.domain_world import NEGATIVE, ORDERED, WAITING, Attempt, World

HISTORIES = int(os.environ.get("HISTORIES", "200"))
ASKED_MAX = 12


class Histories(RuleBasedStateMachine):
    world: World

    @initialize(counts_versions=st.booleans())
    def order(self, counts_versions: bool) -> None:
        self.world = World(counts_versions)
        self.world.erp_says("pending")
        self.payment, self.now, self.log = Payment("pay-1"), NOW, list[LogEntry]()

    @property
    def last(self) -> Attempt:
        return self.world.attempts[-1]

    @property
    def alone(self) -> bool:
        """Whether nothing but the last attempt can still move, so that its loss can be healed."""
        return all(each.status in NEGATIVE and not each.silent for each in self.world.attempts[:-1])

    @precondition(lambda self: self.world.erp_status != "cancelled")
    @precondition(lambda self: len(self.world.attempts) < 2)
    @precondition(lambda self: not any(each.silent for each in self.world.attempts))
    @rule(lost=st.booleans())
    def customer_tries(self, lost: bool) -> None:
        attempt = Attempt(f"ch_{len(self.world.attempts) + 1}")
        self.world.attempts.append(attempt)
        self.world.psp_tells(attempt, lost=lost and self.alone)
        self.world.erp_says(self.world.erp_status)

    @precondition(lambda self: self.world.attempts and self.last.status in WAITING)
    @rule(
        status=st.sampled_from(["authorised", "succeeded", "succeeded", *NEGATIVE]),
        captured=st.sampled_from([ORDERED, ORDERED, Money(999, "EUR"), Money(1000, "USD")]),
        lost=st.booleans(),
        patch=st.booleans(),
    )
    def psp_moves(self, status: str, captured: Money, lost: bool, patch: bool) -> None:
        self.last.status = status
        if status == "succeeded":
            self.last.captured, self.last.amount = captured.minor, captured
        self.world.psp_tells(self.last, lost=lost and self.alone, patch=patch)

    @precondition(lambda self: len(self.world.attempts) > 1 and not self.world.attempts[-1].silent)
    @precondition(lambda self: self.world.attempts and self.world.attempts[0].status in WAITING)
    @rule(status=st.sampled_from(["succeeded", *NEGATIVE]))
    def first_attempt_ends_late(self, status: str) -> None:
        first = self.world.attempts[0]
        first.status, first.captured = status, ORDERED.minor if status == "succeeded" else 0
        self.world.psp_tells(first)

    @precondition(lambda self: self.world.attempts and self.last.captured)
    @rule(what=st.sampled_from(["refund", "part", "undo", "dispute", "won", "fail"]))
    def money_moves_back(self, what: str) -> None:
        last = self.last
        last.refunded = {"refund": last.captured, "part": 400, "undo": 0}.get(what, last.refunded)
        last.disputed = {"dispute": last.captured, "won": 0}.get(what, last.disputed)
        if what == "fail" and not last.refunded and not last.disputed:
            last.captured, last.status = 0, "failed"
        self.world.psp_tells(last)

    @precondition(lambda self: self.world.erp_status == "refunded")
    @precondition(lambda self: len(self.world.attempts) == 1)
    @precondition(lambda self: any(a.captured and not a.disputed for a in self.world.attempts))
    @rule()
    def refund_gets_lost(self) -> None:
        self.last.refunded = self.last.captured
        self.world.psp_tells(self.last, lost=True)

    @precondition(lambda self: self.world.erp_status in {"pending", "paid"})
    @rule(status=st.sampled_from(["paid", "cancelled", "refunded"]))
    def erp_moves(self, status: str) -> None:
        self.world.erp_says(status)

    @precondition(lambda self: self.world.under_way)
    @rule(data=st.data(), again=st.booleans())
    def message_arrives(self, data: st.DataObject, again: bool) -> None:
        place = data.draw(st.integers(0, len(self.world.under_way) - 1))
        self._deliver(place, again=again)

    @rule()
    def psp_is_asked_if_due(self) -> None:
        if not superseded(self.payment):
            self._ask()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        while self.world.under_way:
            self._deliver(0)
        for _ in range(ASKED_MAX):
            if not superseded(self.payment):
                self._ask()
        status, must, may = self.world.truth()
        assert self.payment.status == status
        assert must <= set(self.payment.open_kinds) <= must | may

    def _deliver(self, place: int, *, again: bool = False) -> None:
        event = self.world.under_way[place] if again else self.world.under_way.pop(place)
        step = fold(self.payment, [event], seen=self._seen(), now=self.now, rules=RULES)
        self.payment, self.log = step.payment, self.log + step.entries

    def _ask(self) -> None:
        self.now += timedelta(minutes=20)
        reply = self.world.answer(question_of(self.payment))
        decision = decide(
            self.payment, reply, seen=self._seen(), now=self.now, rules=RULES, actor="worker"
        )
        self.payment = decision.folded.payment
        self.log += decision.folded.entries
        assert isinstance(reply, Found) or decision.folded.before.status is self.payment.status

    def _seen(self) -> Seen:
        applied = [entry.event for entry in self.log if entry.outcome is Outcome.APPLIED]
        return digests(event for event in reversed(applied) if event is not None)


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=HISTORIES,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
