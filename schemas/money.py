"""Money: an exact number of minor units of one currency."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Money:
    """`minor` minor units (cents, yen, fils) of `currency` (ISO 4217); never a fraction."""

    minor: int
    currency: str
