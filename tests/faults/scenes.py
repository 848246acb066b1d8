"""What may happen to one payment in a fault run: its events, the PSP's books, and where it ends.

The plain plots are the demo's. Those told here are what a demo leaves out: restarted counters,
conflicts, patches of the PSP, answers that find nothing, money that only an answer tells of.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.sandbox.plots import PLOTS, Cast, Said, paid
from service.sandbox.truth import captured_minor, truth_of
from tests.support.events import (
    PSP,
    Envelope,
    Record,
    erp_event,
    erp_patch,
    psp_answer,
    psp_event,
    psp_patch,
    record_of,
)

TIMED_KINDS = frozenset({"STUCK_PENDING", "MISSING_AT_PSP", "MISSING_AT_ERP", "ERP_NOT_SETTLED"})
"""Kinds that open when a time has passed: whether it has by the end of a run is not determined."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What must stand of a payment in the end; `kinds` leaves TIMED_KINDS out."""

    status: str
    captured_minor: int = 0
    refunded_minor: int = 0
    disputed_minor: int = 0
    kinds: tuple[str, ...] = ()


@dataclass(slots=True)
class Scene:
    """One payment. `records` stand in the order in which their sources said them.

    `answers`: what the PSP holds, the one it gives for the payment's own id last. `heal_only`: no
    event tells of the status that it ends in.
    """

    payment_id: str
    minor: int
    records: list[Record] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)
    expected: Expected = Expected("pending")
    heal_only: bool = False

    def erp(self, version: int, status: str, **more: Any) -> None:
        """The ERP says `status` as a snapshot."""
        event = erp_event(self.payment_id, version, status=status, minor=self.minor, **more)
        self.records.append(event)

    def psp(self, version: int, status: str, **more: Any) -> None:
        """The PSP says `status` as a snapshot."""
        event = psp_event(self.payment_id, version, status=status, minor=self.minor, **more)
        self.records.append(event)

    def holds(self, status: str, **more: Any) -> None:
        """The PSP has this in its books."""
        answer = psp_answer(self.payment_id, status=status, minor=self.minor, **more)
        self.answers.append(answer)

    def ends(self, status: str, *kinds: str, **sums: int) -> None:
        """What must stand here."""
        self.expected = Expected(status, **sums, kinds=tuple(sorted(kinds)))


Plot = Callable[[Scene], None]


def counter_restarted(scene: Scene) -> None:
    """The ERP is restored from a backup: it counts anew, in a higher epoch."""
    scene.erp(1, "pending")
    scene.erp(2, "pending")
    scene.erp(3, "cancelled")
    scene.erp(1, "pending", epoch=1)
    scene.erp(2, "paid", epoch=1)
    _succeeded(scene)


def conflict(scene: Scene) -> None:
    """Two contents of one version, and nobody says more: a case for a person."""
    scene.erp(1, "pending")
    _contradiction(scene)
    _succeeded(scene)
    scene.ends("succeeded", "VERSION_CONFLICT", captured_minor=scene.minor)


def conflict_over(scene: Scene) -> None:
    """Two contents of one version, and a higher one that ends it."""
    _contradiction(scene)
    scene.erp(3, "paid")
    _succeeded(scene)


def unknown_to_psp(scene: Scene) -> None:
    """The PSP has never heard of it."""
    scene.erp(1, "pending")
    scene.ends("pending")


def capture_failed(scene: Scene) -> None:
    """The PSP takes its success back with a higher version; the ERP has shipped already."""
    scene.erp(1, "pending")
    scene.psp(1, "authorised")
    scene.psp(2, "succeeded")
    scene.erp(2, "paid")
    scene.psp(3, "failed", failure_code="capture_failed")
    scene.holds("failed", failure_code="capture_failed")
    scene.ends("failed", "ERP_PAID_PSP_NOT")


def dispute_won(scene: Scene) -> None:
    """The bank takes the money back, and gives it back."""
    scene.erp(1, "pending")
    scene.psp(1, "succeeded")
    scene.psp(2, "succeeded", disputed_minor=scene.minor)
    scene.psp(3, "succeeded", disputed_minor=0)
    scene.holds("succeeded", disputed_minor=0)
    scene.ends("succeeded", captured_minor=scene.minor)


def told_in_patches(scene: Scene) -> None:
    """Both sources send a first snapshot and then only what changed."""
    name, part = scene.payment_id, scene.minor // 3 + 1
    scene.erp(1, "pending")
    scene.psp(1, "authorised")
    scene.records += [
        psp_patch(name, 2, status="succeeded"),
        erp_patch(name, 2, status="paid"),
        psp_patch(name, 3, refunded_minor=part),
        erp_patch(name, 3, order_id=f"moved-{name}"),
    ]
    scene.holds("succeeded", refunded_minor=part)
    scene.ends("partially_refunded", captured_minor=scene.minor, refunded_minor=part)


def success_of_named_try_lost(scene: Scene) -> None:
    """The first card failed; the second one paid, and only the ERP knows its reference."""
    first, second = f"first-{scene.payment_id}", f"second-{scene.payment_id}"
    scene.erp(1, "pending", psp=PSP, psp_reference=second)
    scene.psp(1, "failed", psp_reference=first, failure_code="card_declined")
    scene.holds("failed", psp_reference=first, failure_code="card_declined")
    scene.holds("succeeded", psp_reference=second)
    scene.ends("succeeded", captured_minor=scene.minor)
    scene.heal_only = True


def failure_lost(scene: Scene) -> None:
    """Only an answer tells that the PSP has refused it."""
    scene.erp(1, "pending")
    scene.psp(1, "pending")
    scene.holds("failed", failure_code="insufficient_funds")
    scene.ends("failed")
    scene.heal_only = True


def short_capture_lost(scene: Scene) -> None:
    """Only an answer tells that the PSP took less than was ordered: never healed."""
    scene.erp(1, "pending")
    scene.psp(1, "authorised")
    scene.holds("succeeded", captured_minor=scene.minor - 1)
    scene.ends("pending", "AMOUNT_MISMATCH", captured_minor=scene.minor - 1)


def success_lost(scene: Scene) -> None:
    """Only an answer tells that it was paid."""
    scene.erp(1, "pending")
    scene.psp(1, "pending")
    scene.holds("succeeded")
    scene.ends("succeeded", captured_minor=scene.minor)
    scene.heal_only = True


OWN_PLOTS: Sequence[Plot] = (
    success_lost,
    success_lost,
    conflict,
    told_in_patches,
    counter_restarted,
    success_of_named_try_lost,
    capture_failed,
    short_capture_lost,
    dispute_won,
    unknown_to_psp,
    conflict_over,
    failure_lost,
)
"""In this order, so that a short run has the most telling ones."""
DEMO_PLOTS = (*PLOTS, *[paid] * (len(PLOTS) // 2))


def scene_of_demo(plot: Callable[[Cast], None], payment_id: str, minor: int) -> Scene:
    """A plot of the demo, told in records of the tests; answers carry no version."""
    cast = Cast(
        payment_id=payment_id,
        order_id=f"order-{payment_id}",
        psp=PSP,
        reference=f"ref-{payment_id}",
        amount={"minor": minor, "currency": "EUR"},
        counts_versions=False,
    )
    plot(cast)
    held = sorted(cast.held.values(), key=captured_minor)
    truth = truth_of(cast.erp, held)
    return Scene(
        payment_id=payment_id,
        minor=minor,
        records=[_record(payment_id, said) for said in cast.said if not said.lost],
        answers=[dict(answer) for answer in held],
        expected=Expected(
            status=truth.status,
            captured_minor=truth.captured_minor,
            refunded_minor=truth.refunded_minor,
            disputed_minor=truth.disputed_minor,
            kinds=truth.open_discrepancies,
        ),
        heal_only=any(said.lost for said in cast.said),
    )


def _record(payment_id: str, said: Said) -> Record:
    reference = f"-{said.data['psp_reference']}" if said.source == "psp" else ""
    envelope = Envelope(
        event_id=f"{said.source}-{payment_id}{reference}-{said.version}",
        changekind="patch" if said.patch else "snapshot",
    )
    data: Mapping[str, Any] = said.data
    return record_of(said.source, payment_id, said.version, dict(data), envelope)


def _contradiction(scene: Scene) -> None:
    scene.erp(2, "paid")
    other = f"other-{scene.payment_id}"
    scene.erp(2, "paid", order_id=other, event_id=f"erp-{scene.payment_id}-again")


def _succeeded(scene: Scene) -> None:
    scene.psp(1, "authorised")
    scene.psp(2, "succeeded")
    scene.holds("succeeded")
    scene.ends("succeeded", captured_minor=scene.minor)
