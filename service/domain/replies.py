"""What a PSP answers when it is asked for a payment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.domain.events import SourceEvent
from service.domain.facts import FINAL, PspFacts, finality


@dataclass(frozen=True, slots=True)
class Found:
    """The PSP knows the payment. `event` is set if the answer carried a version, else `facts`
    count alone. `method` is the way of paying, where the PSP names it.
    """

    psp: str
    psp_reference: str
    facts: PspFacts
    data: Mapping[str, Any]
    event: SourceEvent | None = None
    method: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The PSP payment that the answer is about."""
        return (self.psp, self.psp_reference)

    @property
    def final(self) -> bool:
        """Whether the PSP has decided: no later answer is waited for."""
        return finality(self.facts) >= FINAL


@dataclass(frozen=True, slots=True)
class Missing:
    """The PSP says that it does not know the payment: one proof of the two that are needed."""


Reply = Found | Missing
