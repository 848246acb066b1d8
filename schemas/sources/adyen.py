"""Adyen's standard notifications: facts about payments, several a record, in any order.

Version: none. A notification tells what happened, not how the payment stands, and nothing counts
them; `eventDate` is the second of the happening, shared by many. So a record gives facts, the facts
of a payment are kept, and `adyen_ledger` adds them up; the version of the result is the number of
distinct facts, which only grows. Weak: a notification that never came is not missed by any number;
Adyen sends again until it is acknowledged, and healing asks the PSP.

Taken are the items of `notificationItems` (and an item alone, as a forwarder may send it). Codes
that are about no payment's money, and the webhooks of the platform and banking products, are
ignored; a code that is not known here is refused, since it may be about money. One item that is
refused refuses the record: its other items are facts that a replay may bring twice.
Amounts are in Adyen's own minor units (`ADYEN_EXPONENTS`) and are converted exactly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from schemas.cloudevent import Tombstone
from schemas.currency import Exponents
from schemas.fields import NO_EXCEPTIONS
from schemas.record import Headers
from schemas.refusal import Reason, Refused, shown_text
from schemas.sources.amounts import iso_exponent, iso_minor, whole_minor
from schemas.sources.contract import Ignored, Reading, Why
from schemas.sources.fact import Fact
from schemas.sources.reading import (
    TEXT_CHARACTERS_MAX,
    at,
    document_of,
    optional_text_at,
    payment_id_at,
    text_at,
    time_of,
)
from schemas.validation import object_of

ADYEN_EXPONENTS: Final[Mapping[str, int]] = {"CLP": 2, "CVE": 0, "IDR": 0, "ISK": 2}
"""Where Adyen's minor unit departs from ISO 4217."""

RECAPTURE: Final = "RECAPTURE"
"""Our own code for a CAPTURE of a capture that had failed; Adyen tells it by the reason alone."""

_FACT_CODES: Final = """
    AUTHORISATION AUTHORISATION_ADJUSTMENT CANCELLATION CANCEL_OR_REFUND CAPTURE CAPTURE_FAILED
    CHARGEBACK CHARGEBACK_REVERSED EXPIRE NOTIFICATION_OF_CHARGEBACK OFFER_CLOSED
    PREARBITRATION_LOST PREARBITRATION_WON REFUND REFUNDED_REVERSED REFUND_FAILED
    SECOND_CHARGEBACK TECHNICAL_CANCEL VOID_PENDING_REFUND
    """
_IGNORED_CODES: Final = """
    AUTHENTICATION AUTORESCUE AUTORESCUE_NEXT_ATTEMPT CANCEL_AUTORESCUE DISABLE_RECURRING
    DISPUTE_DEFENSE_PERIOD_ENDED DONATION FRAUD_ONLY FUND_TRANSFER HANDLED_EXTERNALLY
    INFORMATION_SUPPLIED ISSUER_COMMENTS ISSUER_RESPONSE_TIMEFRAME_EXPIRED MANUAL_REVIEW_ACCEPT
    MANUAL_REVIEW_REJECT NOTIFICATION_OF_FRAUD ORDER_CLOSED ORDER_OPENED PAIDOUT_REVERSED
    PAYOUT_DECLINE PAYOUT_EXPIRE PAYOUT_THIRDPARTY PENDING POSTPONED_REFUND PROCESS_RETRY
    RECURRING_CONTRACT REFUND_WITH_DATA REPORT_AVAILABLE REQUEST_FOR_INFORMATION
    """
FACT_CODES: Final = frozenset(_FACT_CODES.split())
IGNORED_CODES: Final = frozenset(_IGNORED_CODES.split())

_BOOLEANS: Final = {"true": True, "false": False}
_ITEM: Final = "NotificationRequestItem"


@dataclass(frozen=True, slots=True)
class Adyen:
    """Decoder of one Adyen account's notifications.

    `psp` is the account's name in our contract, none to take `merchantAccountCode`. `live` set:
    notifications of the other environment are ignored. The payment id is looked for at
    `payment_id_paths` of the item, in order. `exponents` are the accounts' own exceptions to ISO
    4217, beside Adyen's.
    """

    psp: str | None = None
    payment_id_paths: tuple[str, ...] = ("merchantReference",)
    live: bool | None = None
    exponents: Exponents = field(default_factory=lambda: NO_EXCEPTIONS)

    def __call__(self, *, key: bytes | None, value: bytes | None, headers: Headers) -> Reading:
        """The facts of one record; or a record without any."""
        document = None if value is None else document_of(value)
        if document is None:
            return Tombstone(payment_id=None)
        items = _items(document)
        if items is None:
            return Ignored(Why.OTHER_TYPE, _webhook_type(document))
        if not self._is_wanted_mode(document):
            return Ignored(Why.OTHER_MODE, f"live is {document['live']}")
        facts = [self._fact(item) for item in items if _is_fact(item)]
        if facts:
            return facts
        return Ignored(Why.OTHER_TYPE, ",".join(text_at(item, "eventCode") for item in items)[:200])

    def _is_wanted_mode(self, document: dict[str, Any]) -> bool:
        if self.live is None or "live" not in document:
            return True
        return _boolean(document, "live") is self.live

    def _fact(self, item: dict[str, Any]) -> Fact:
        payment_id = self._payment_id(item)
        try:
            return self._read(item, payment_id)
        except Refused as refused:
            refused.payment_id = payment_id
            raise

    def _read(self, item: dict[str, Any], payment_id: str) -> Fact:
        psp = self.psp or text_at(item, "merchantAccountCode")
        code, reason = text_at(item, "eventCode"), _reason(item)
        if code == "CAPTURE" and "recaptured" in reason.lower():
            code = RECAPTURE
        currency = text_at(item, "amount.currency").upper()
        return Fact(
            payment_id=payment_id,
            psp=psp,
            psp_reference=text_at(item, "pspReference"),
            original_reference=optional_text_at(item, "originalReference") or "",
            event_code=code,
            success=_boolean(item, "success"),
            currency=currency,
            minor=self._minor(item, currency, psp),
            event_date=time_of(text_at(item, "eventDate"), "rfc3339", "eventDate"),
            reason=reason,
            action=optional_text_at(item, "additionalData.modification.action") or "",
        )

    def _payment_id(self, item: dict[str, Any]) -> str:
        for path in self.payment_id_paths:
            payment_id = payment_id_at(item, path)
            if payment_id is not None:
                return payment_id
        path = self.payment_id_paths[0]
        raise Refused(Reason.MISSING_FIELD, path, "required; send the payment id there")

    def _minor(self, item: dict[str, Any], currency: str, psp: str) -> int:
        value, field_name = at(item, "amount.value"), "amount.value"
        if value is None:
            raise Refused(Reason.MISSING_FIELD, field_name, "required; give it a value")
        iso = iso_exponent(currency, "amount.currency")
        own = {**ADYEN_EXPONENTS, **self.exponents.get(psp, {})}.get(currency, iso)
        return iso_minor(whole_minor(value, field_name), field_name, own=own, iso=iso)


def _items(document: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The items of a notification; None for a webhook of another product. Raises Refused."""
    wrapped = document.get("notificationItems")
    if wrapped is None and ("eventCode" in document or _ITEM in document):
        wrapped = [document]
    if isinstance(wrapped, list) and wrapped:
        return [_item(each) for each in wrapped]
    if wrapped is None and _webhook_type(document):
        return None
    remedy = "required; send the whole notification, or one item alone"
    raise Refused(Reason.MISSING_FIELD, "notificationItems", remedy)


def _item(wrapped: Any) -> dict[str, Any]:
    item = object_of(wrapped, "notificationItems")
    return object_of(item[_ITEM], _ITEM) if _ITEM in item else item


def _webhook_type(document: dict[str, Any]) -> str:
    """What platform, banking, and management webhooks call their kind; empty if it is none."""
    kind = document.get("type", document.get("eventType"))
    return shown_text(kind) if isinstance(kind, str) else ""


def _is_fact(item: dict[str, Any]) -> bool:
    code = text_at(item, "eventCode")
    if code not in FACT_CODES and code not in IGNORED_CODES:
        remedy = "not known here, and it may be about money; add it to the facts or to the ignored"
        raise Refused(Reason.UNKNOWN_TYPE, "eventCode", remedy, value=code)
    return code in FACT_CODES


def _boolean(item: dict[str, Any], name: str) -> bool:
    """`true` and `false` as JSON or as text: both are sent."""
    value = item.get(name)
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _BOOLEANS:
        return _BOOLEANS[value]
    reason = Reason.MISSING_FIELD if value is None else Reason.UNKNOWN_VALUE
    raise Refused(reason, name, "give true or false", value=value)


def _reason(item: dict[str, Any]) -> str:
    reason = item.get("reason")
    return reason[:TEXT_CHARACTERS_MAX] if isinstance(reason, str) and reason != "null" else ""
