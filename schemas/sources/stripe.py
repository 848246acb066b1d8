"""Stripe's webhook events about PaymentIntents, Charges, Refunds and Disputes.

Version: the second of the event's `created`, then a rank of the event's type, as
`created * 256 + rank`. Stripe counts nothing and sends in any order; one success alone sends
`payment_intent.succeeded` and `charge.succeeded` within one second. The ranks put the types of one
second in the order of a payment's life, a success after a failure. Weak: two events of one type
and second (two partial refunds) are equal and may differ. All events are advisory: on a tie or a
regression the PSP is to be asked, and no person.

Each object tells a part of the payment, so each event sets only that part (a patch): an intent its
status, amount and captured sum; a charge the captured and refunded sums, and the status where it
has no intent; a dispute the disputed sum. A refund tells no sum, so its event sets nothing: ask.
A failed charge of an intent is ignored: the intent tells what became of the payment.

The PSP's reference is the intent's id, of a charge without one the charge's. The payment id is
looked for at `payment_id_paths` of the object, in order; refunds and disputes often name none.
Amounts are in Stripe's own minor units (`STRIPE_EXPONENTS`) and are converted exactly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from schemas.cloudevent import Tombstone
from schemas.currency import Exponents
from schemas.fields import NO_EXCEPTIONS
from schemas.record import Headers
from schemas.refusal import Reason, Refused, shown_text
from schemas.sources.contract import Decoded, Ignored, Reading, Why
from schemas.sources.reading import at, document_of, payment_id_at, text_at, time_of
from schemas.sources.stripe_objects import READERS, STRIPE_EXPONENTS, Part
from schemas.sources.telling import Told, event_of
from schemas.validation import object_of

RANKS_A_SECOND: Final = 256

# Of one second the later stage of a payment's life wins. What is not listed is early.
_RANKS: Final[Mapping[str, int]] = {
    "payment_intent.created": 0,
    "charge.pending": 10,
    "payment_intent.requires_action": 20,
    "payment_intent.processing": 30,
    "charge.failed": 40,
    "payment_intent.payment_failed": 50,
    "charge.succeeded": 60,
    "payment_intent.amount_capturable_updated": 70,
    "charge.expired": 80,
    "payment_intent.canceled": 90,
    "charge.captured": 100,
    "payment_intent.succeeded": 110,
    "charge.updated": 120,
    "refund.created": 130,
    "charge.refunded": 140,
    "refund.updated": 150,
    "charge.refund.updated": 150,
    "refund.failed": 160,
    "charge.dispute.created": 170,
    "charge.dispute.updated": 180,
    "charge.dispute.funds_withdrawn": 190,
    "charge.dispute.funds_reinstated": 200,
    "charge.dispute.closed": 210,
}
_UNLISTED_RANK: Final = 5


@dataclass(frozen=True, slots=True)
class Stripe:
    """Decoder of one Stripe account's events.

    `psp` is the account's name in our contract. `livemode` set: events of the other mode are
    ignored. `exponents` are the accounts' own exceptions to ISO 4217, beside Stripe's.
    """

    psp: str
    payment_id_paths: tuple[str, ...] = ("metadata.payment_id",)
    livemode: bool | None = None
    exponents: Exponents = field(default_factory=lambda: NO_EXCEPTIONS)

    def __call__(self, *, key: bytes | None, value: bytes | None, headers: Headers) -> Reading:
        """One event; or an event about something that is no payment."""
        document = None if value is None else document_of(value)
        if document is None:
            return Tombstone(payment_id=None)
        _refuse_no_event(document)
        event_type = text_at(document, "type")
        thing = object_of(at(document, "data.object"), "data.object")
        read = READERS.get(text_at(thing, "object"))
        if read is None:
            return Ignored(Why.OTHER_TYPE, shown_text(event_type))
        if self.livemode is not None and document.get("livemode") is not self.livemode:
            return Ignored(Why.OTHER_MODE, shown_text(event_type))
        payment_id = self._payment_id(thing)
        try:
            part = read(thing, {**STRIPE_EXPONENTS, **self.exponents.get(self.psp, {})})
            if part is None:
                return Ignored(Why.OTHER_TYPE, f"{shown_text(event_type)} of a payment_intent")
            told = self._told(document, event_type, part, payment_id or "")
            event = event_of(told, key=key, headers=headers)
        except Refused as refused:
            refused.payment_id = payment_id
            raise
        unaddressed = None if payment_id is not None else self._no_payment_id()
        return (Decoded(event, advisory=True, unaddressed=unaddressed),)

    def _payment_id(self, thing: dict[str, Any]) -> str | None:
        found = (payment_id_at(thing, path) for path in self.payment_id_paths)
        return next((payment_id for payment_id in found if payment_id is not None), None)

    def _told(self, document: dict[str, Any], event_type: str, part: Part, payment_id: str) -> Told:
        created = document.get("created")
        time = time_of(created, "epoch_seconds", "created")
        rank = _RANKS.get(event_type, _UNLISTED_RANK)
        identity = {"psp": self.psp, "psp_reference": part.psp_reference}
        return Told(
            kind="psp",
            payment_id=payment_id,
            event_id=text_at(document, "id"),
            source=f"/stripe/{self.psp}",
            time=time,
            epoch=0,
            version=int(time.timestamp()) * RANKS_A_SECOND + rank,
            changekind="patch",
            data={**identity, **part.fields},
        )

    def _no_payment_id(self) -> Refused:
        remedy = "absent, and no payment known by the PSP's reference; set it as metadata"
        path = f"data.object.{self.payment_id_paths[0]}" if self.payment_id_paths else "data.object"
        return Refused(Reason.MISSING_FIELD, path, remedy)


def _refuse_no_event(document: dict[str, Any]) -> None:
    kind = document.get("object")
    if kind != "event":
        remedy = "give whole webhook events ('event'); an object alone has no time of its own"
        raise Refused(Reason.UNKNOWN_TYPE, "object", remedy, value=kind)
