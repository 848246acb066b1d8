"""The own contract: CloudEvents with `entityversion`, as `schemas.cloudevent` decodes them.

Version: `versionepoch` and `entityversion`, counted by the source itself. Nothing is weak here;
the other decoders exist for sources that cannot count.
"""

from dataclasses import dataclass, field

from schemas.cloudevent import Tombstone, decode
from schemas.currency import Exponents
from schemas.fields import NO_EXCEPTIONS
from schemas.record import Headers
from schemas.sources.contract import Decoded, Reading


@dataclass(frozen=True, slots=True)
class CloudEvents:
    """Decoder of the own contract; `exponents` are the accounts' exceptions to ISO 4217."""

    exponents: Exponents = field(default_factory=lambda: NO_EXCEPTIONS)

    def __call__(self, *, key: bytes | None, value: bytes | None, headers: Headers) -> Reading:
        """One event, or a tombstone; nothing is ignored: an unknown type is refused."""
        decoded = decode(key=key, value=value, headers=headers, exponents=self.exponents)
        return decoded if isinstance(decoded, Tombstone) else (Decoded(decoded),)
