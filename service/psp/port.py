"""The question a worker asks a payment service provider, and the only answers it can get.

An answer is a value, never an exception: a worker has to look at which of the three it holds.
`Answered` is what the provider knows, `NotFound` is its own word that it knows nothing, and
`Unavailable` is everything else. "Unknown" is thus never read as "failed", nor an outage as
"missing".
"""

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

UnavailableReason = Literal[
    "throttled",  # the provider said 429, or is being left alone because it did
    "server_error",  # 5xx
    "timeout",  # no whole answer within the time of one try
    "connection",  # refused, reset, cut off, or no trusted certificate
    "breaker_open",  # too many failures in a row: not asked at all
    "nonsense",  # an answer that breaks the contract
    "budget",  # the time for all tries is used up, or would be before our own limit allows one
    "refused",  # 401, 403, or no usable token: a person has to act
]


@dataclass(frozen=True, slots=True)
class Question:
    """Which payment is meant; `psp` and `psp_reference` where an event has named them."""

    payment_id: str
    psp: str | None = None
    psp_reference: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """What the provider says of one PSP payment; sums in ISO 4217's minor units.

    `captured_minor` is never absent: where the provider leaves it out, it is the amount if the
    payment succeeded and 0 otherwise. Where no whole number of ISO's units equals what an account
    with units of its own says, `amount_minor` and `currency` are None and the sums stay in the
    account's units. `entityversion` is None where the provider counts none. `data` is what goes to
    the log. `method` (card, sepa_debit) is None where the provider does not name it.
    """

    status: str
    amount_minor: int | None
    currency: str | None
    captured_minor: int
    refunded_minor: int
    disputed_minor: int
    psp: str
    psp_reference: str
    entityversion: int | None
    versionepoch: int
    failure_code: str | None
    data: dict[str, Any] = field(repr=False)
    request_id: str | None = None
    method: str | None = None


@dataclass(frozen=True, slots=True)
class NotFound:
    """The provider itself says that it knows no such payment."""

    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No answer. Says nothing about the payment; `detail` holds no secret and no payload."""

    reason: UnavailableReason
    retry_after_seconds: float | None
    detail: str
    request_id: str | None = None


Answer = Answered | NotFound | Unavailable


class PspPort(Protocol):
    """One provider account that can be asked."""

    async def ask(self, question: Question) -> Answer:
        """Ask once. Raises nothing for what the far end does; cancellation passes through."""
        ...
