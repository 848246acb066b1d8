"""Which field of a foreign document or table row is which field of the contract.

A place is a dotted path (`resource.amount.total`, a column's name), or `=` and a constant
(`=EUR`). What the source does not have is not declared: an event then sets only the declared
fields (a patch) and never clears the others. The ERP, and a PSP source with status, amount and
all three sums, send snapshots.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from schemas.currency import Exponents
from schemas.events import ErpStatus, PspStatus
from schemas.fields import ChangeKind
from schemas.refusal import Reason, Refused
from schemas.sources.amounts import (
    amount_text,
    decimal_minor,
    iso_exponent,
    iso_minor,
    number_minor,
    whole_minor,
)
from schemas.sources.decimals import base64_decimal
from schemas.sources.declaration import Declared, wrong
from schemas.sources.reading import at, optional_text_at, payment_id_at, text_at

CONSTANT: Final = "="

_STATUSES: Final = {"erp": frozenset(ErpStatus), "psp": frozenset(PspStatus)}
_OWNED: Final = {
    "erp": ("order_id", "status", "amount"),
    "psp": ("status", "amount", "captured", "refunded", "disputed"),
}
_IDENTITY: Final = ("psp", "psp_reference")
_SUMS: Final = {
    "captured": "captured_minor",
    "refunded": "refunded_minor",
    "disputed": "disputed_minor",
}


def _place(text: str) -> str:
    if not text.strip(". ") or text == CONSTANT or ".." in text:
        raise wrong("give a dotted path such as 'amount.value', or '=' and a constant")
    return text


Place = Annotated[str, AfterValidator(_place)]
"""A dotted path in the document, or `=` and a constant."""


class StatusField(Declared):
    """Where the status stands, and what its values mean. One that is not listed is refused."""

    path: Place
    values: Annotated[dict[str, str], Field(min_length=1)]
    """The source's value as text (`true`, `7`, `null` for none) -> the contract's status."""


class MoneyFields(Declared):
    """How all amounts of a source are written."""

    unit: Literal["minor", "decimal", "number", "base64"]
    """`minor`: whole minor units. `decimal`: text such as 18.60. `number`: a JSON number or text,
    read exactly. `base64`: an unscaled two's complement number, with `scale`."""
    currency: Place
    scale: Annotated[int, Field(ge=0, le=38)] | None = None
    exponents: dict[str, Annotated[int, Field(ge=0, le=18)]] = Field(default_factory=dict)
    """Currency -> decimal digits of the source's minor unit, where it departs from ISO 4217. Of the
    unit `minor` only: major units are the same everywhere."""

    @model_validator(mode="after")
    def _scale_belongs_to_base64(self) -> Self:
        if (self.unit == "base64") != (self.scale is not None):
            raise wrong("declare a scale with the unit base64, and with no other")
        return self


class FieldMapping(Declared):
    """The contract's fields of one source, each at its place."""

    source: Literal["erp", "psp"]
    payment_id: Place
    order_id: Place | None = None
    psp: Place | None = None
    psp_reference: Place | None = None
    status: StatusField | None = None
    money: MoneyFields | None = None
    amount: Place | None = None
    captured: Place | None = None
    refunded: Place | None = None
    disputed: Place | None = None
    failure_code: Place | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        _refuse_incomplete(self)
        return self

    @property
    def changekind(self) -> ChangeKind:
        """Snapshot if every field that the source owns is declared, else patch."""
        complete = all(getattr(self, name) is not None for name in _OWNED[self.source])
        return "snapshot" if complete else "patch"

    @property
    def paths(self) -> list[str]:
        """Every declared place that is no constant."""
        money = [self.money.currency] if self.money else []
        status = [self.status.path] if self.status else []
        names = ("payment_id", "order_id", "psp", "psp_reference", "amount", *_SUMS, "failure_code")
        declared = [getattr(self, name) for name in names]
        return [
            place
            for place in [*declared, *status, *money]
            if place is not None and not place.startswith(CONSTANT)
        ]


def _refuse_incomplete(mapping: FieldMapping) -> None:
    needed = ("order_id", "status", "amount") if mapping.source == "erp" else _IDENTITY
    for name in needed:
        if getattr(mapping, name) is None:
            raise wrong(f"declare {name} for the source {mapping.source}")
    if mapping.source == "erp" and any(getattr(mapping, name) for name in _SUMS):
        raise wrong("captured, refunded and disputed are the PSP's; drop them for the ERP")
    if mapping.money is None and any(getattr(mapping, name) for name in ("amount", *_SUMS)):
        raise wrong("declare money (unit and currency) where an amount is declared")
    known = _STATUSES[mapping.source]
    for value, status in mapping.status.values.items() if mapping.status else ():
        if status not in known:
            raise wrong(f"status.values maps '{value}' to '{status}'; use {', '.join(known)}")


def payment_id_of(mapping: FieldMapping, document: Any) -> str | None:
    """The payment id, None where the document does not tell it."""
    if mapping.payment_id.startswith(CONSTANT):
        return mapping.payment_id[1:]
    return payment_id_at(document, mapping.payment_id)


def data_of(mapping: FieldMapping, document: Any, *, exponents: Exponents) -> dict[str, Any]:
    """The contract's data in a document. Raises Refused; its field is the declared path."""
    data: dict[str, Any] = {}
    for name in ("order_id", *_IDENTITY):
        place = getattr(mapping, name)
        optional = mapping.source == "erp" and name in _IDENTITY
        if place is not None and (text := _text(document, place, optional=optional)):
            data[name] = text
    if mapping.failure_code is not None:
        data["failure_code"] = _text(document, mapping.failure_code, optional=True)
    if mapping.status is not None:
        data["status"] = _status(mapping.status, document)
    if mapping.money is not None:
        data |= _amounts(mapping, mapping.money, document, exponents=exponents)
    return data


def _text(document: Any, place: str, *, optional: bool = False) -> str | None:
    if place.startswith(CONSTANT):
        return place[1:]
    return optional_text_at(document, place) if optional else text_at(document, place)


def _status(field: StatusField, document: Any) -> str:
    value = field.path[1:] if field.path.startswith(CONSTANT) else at(document, field.path)
    if value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    else:
        text = str(value) if isinstance(value, str | int) else ""
    if text not in field.values:
        remedy = "no declared status; map it in status.values"
        raise Refused(Reason.UNKNOWN_VALUE, field.path, remedy, value=value)
    return field.values[text]


def _amounts(
    mapping: FieldMapping, money: MoneyFields, document: Any, *, exponents: Exponents
) -> dict[str, Any]:
    """`amount` and the sums; an absent sum is what the contract takes an absent one to be."""
    currency = (_text(document, money.currency) or "").upper()
    iso = iso_exponent(currency, money.currency)
    own = _own_exponents(mapping, document, exponents).get(currency, iso)

    def minor_at(place: str) -> int | None:
        value = place[1:] if place.startswith(CONSTANT) else at(document, place)
        if value is None:
            return None
        if money.unit == "minor":
            return iso_minor(whole_minor(value, place), place, own=own, iso=iso)
        return _minor_of_major(value, money, iso, place)

    amounts: dict[str, Any] = {}
    if mapping.amount is not None:
        minor = minor_at(mapping.amount)
        if minor is None:
            raise Refused(Reason.MISSING_FIELD, mapping.amount, "required; give it a value")
        amounts["amount"] = {"minor": minor, "currency": currency, "exponent": iso}
    for name, field in _SUMS.items():
        place = getattr(mapping, name)
        if place is not None:
            sum_minor = minor_at(place)
            amounts[field] = sum_minor if sum_minor is not None or name == "captured" else 0
    return amounts


def _own_exponents(mapping: FieldMapping, document: Any, exponents: Exponents) -> Mapping[str, int]:
    """The account's exceptions to ISO 4217, and the declared ones; an ERP has only the latter."""
    declared = mapping.money.exponents if mapping.money else {}
    if mapping.source == "erp" or mapping.psp is None:
        return declared
    account = _text(document, mapping.psp, optional=True)
    return {**exponents.get(account or "", {}), **declared}


def _minor_of_major(value: Any, money: MoneyFields, exponent: int, place: str) -> int:
    if money.unit == "number":
        return number_minor(value, exponent, place)
    if money.scale is not None:
        value = base64_decimal(value, money.scale, place)
    elif type(value) is int:
        return number_minor(value, exponent, place)
    return decimal_minor(amount_text(value, place), exponent, place)
