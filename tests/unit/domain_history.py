"""One payment's history, step by step: what happens in the world, what arrives here, and when the
PSP is asked. A step that cannot be taken now is none.

A change at the PSP may get lost where asking can still find it out: nothing else is under way with
that payment which asking would not be about.
"""

from datetime import datetime, timedelta

from schemas.money import Money
from service.domain.events import LogEntry, Outcome, Seen, SourceEvent
from service.domain.fold import fold
from service.domain.healing import Found, decide, superseded
from service.domain.payment import Payment
from service.domain.replies import Reply
from service.reconcile.questions import question_of
from tests.unit.domain_events import NOW, RULES, digests
from tests.unit.domain_world import NEGATIVE, ORDERED, WAITING, Attempt, World

ASKED_MAX = 12
ENDS = ("succeeded", "authorised", *NEGATIVE)
CAPTURES = (ORDERED, Money(999, "EUR"), Money(1000, "USD"))
BACK = ("refund", "part", "undo", "dispute", "won", "fail")
ERP_WORDS = ("paid", "cancelled", "refunded")


class History:
    """The world and the payment here."""

    def __init__(self, *, counts_versions: bool) -> None:
        self.world = World(counts_versions)
        self.world.erp_says("pending")
        self.payment, self.now = Payment("pay-1"), NOW
        self.log: list[LogEntry] = []
        self.inputs: list[tuple[SourceEvent | Reply, datetime]] = []

    def customer_tries(self, *, lost: bool) -> None:
        attempts = self.world.attempts
        if self.world.erp_status == "cancelled" or len(attempts) > 1 or self._silent():
            return
        attempts.append(Attempt(f"ch_{len(attempts) + 1}"))
        self.world.psp_tells(attempts[-1], lost=lost and self._alone())
        self.world.erp_says(self.world.erp_status)

    def psp_moves(self, status: str, captured: Money, *, lost: bool, patch: bool) -> None:
        last = self._last()
        if last is None or last.status not in WAITING:
            return
        last.status = status
        if status == "succeeded":
            last.captured, last.amount = captured.minor, captured
        self.world.psp_tells(last, lost=lost and self._alone(), patch=patch)

    def first_attempt_ends_late(self, status: str) -> None:
        attempts = self.world.attempts
        if len(attempts) < 2 or self._silent() or attempts[0].status not in WAITING:
            return
        attempts[0].status = status
        attempts[0].captured = ORDERED.minor if status == "succeeded" else 0
        self.world.psp_tells(attempts[0])

    def money_moves_back(self, what: str, *, patch: bool) -> None:
        last = self._last()
        if last is None or not last.captured:
            return
        last.refunded = {"refund": last.captured, "part": 400, "undo": 0}.get(what, last.refunded)
        last.disputed = {"dispute": last.captured, "won": 0}.get(what, last.disputed)
        if what == "fail" and not last.refunded and not last.disputed:
            last.captured, last.status = 0, "failed"
        self.world.psp_tells(last, patch=patch)

    def refund_gets_lost(self) -> None:
        last, world = self._last(), self.world
        if last is None or world.erp_status != "refunded" or len(world.attempts) > 1:
            return
        if last.captured and not last.disputed:
            last.refunded = last.captured
            world.psp_tells(last, lost=True)

    def erp_moves(self, status: str) -> None:
        if self.world.erp_status in {"pending", "paid"}:
            self.world.erp_says(status)

    def message_arrives(self, place: int, *, again: bool) -> None:
        under_way = self.world.under_way
        if not under_way:
            return
        place %= len(under_way)
        event = under_way[place] if again else under_way.pop(place)
        self.inputs.append((event, self.now))
        step = fold(self.payment, [event], seen=self._seen(), now=self.now, rules=RULES)
        self.payment, self.log = step.payment, self.log + step.entries

    def psp_is_asked_if_due(self) -> None:
        if superseded(self.payment):
            return
        self.now += timedelta(minutes=20)
        reply = self.world.answer(question_of(self.payment))
        self.inputs.append((reply, self.now))
        decision = decide(
            self.payment, reply, seen=self._seen(), now=self.now, rules=RULES, actor="worker"
        )
        assert isinstance(reply, Found) or decision.folded.payment.status is self.payment.status
        self.payment, self.log = decision.folded.payment, self.log + decision.folded.entries

    def ends_at_the_truth(self) -> None:
        """Deliver all, ask until nobody needs to be asked, and compare."""
        while self.world.under_way:
            self.message_arrives(0, again=False)
        for _ in range(ASKED_MAX):
            self.psp_is_asked_if_due()
        status, must, may = self.world.truth()
        assert self.payment.status == status
        assert must <= set(self.payment.open_kinds) <= must | may

    def _last(self) -> Attempt | None:
        return self.world.attempts[-1] if self.world.attempts else None

    def _silent(self) -> bool:
        return any(each.silent for each in self.world.attempts)

    def _alone(self) -> bool:
        """Whether all attempts but the last one are over, and known here to be."""
        return all(each.status in NEGATIVE and not each.silent for each in self.world.attempts[:-1])

    def _seen(self) -> Seen:
        applied = [entry.event for entry in self.log if entry.outcome is Outcome.APPLIED]
        return digests(event for event in reversed(applied) if event is not None)
