"""Adyen notifications."""

from typing import Any

from schemas.sources.adyen import Adyen
from schemas.sources.fact import Fact
from tests.contract.sources.reading import facts

AUTH = "AUTH000000000001"


def item(code: str, reference: str = AUTH, original: str | None = None, **changes: Any) -> Any:
    """One item; everything but the authorisation names what it modifies."""
    fields: dict[str, Any] = {
        "eventCode": code,
        "pspReference": reference,
        "success": "true",
        "amount": {"currency": "EUR", "value": 1860},
        "eventDate": "2024-07-01T12:00:00+02:00",
        "merchantAccountCode": "ShopECOM",
        "merchantReference": "pay-1",
        "reason": "",
        **changes,
    }
    return fields if original is None else {**fields, "originalReference": original}


def notification(*items: Any, live: Any = "true") -> dict[str, Any]:
    """A whole notification."""
    return {
        "live": live,
        "notificationItems": [{"NotificationRequestItem": each} for each in items],
    }


def told(*items: Any) -> list[Fact]:
    """The facts of some items."""
    return facts(Adyen(), notification(*items))


def modification(code: str, reference: str, minor: int = 1860, **changes: Any) -> Any:
    """A capture, refund, dispute … of the authorisation."""
    amount = {"currency": "EUR", "value": minor}
    return item(code, reference, AUTH, amount=amount, **changes)
