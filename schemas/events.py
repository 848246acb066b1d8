"""The events that come in: envelope and data of `erp.payment.v1` and `psp.payment.v1`.

A snapshot carries every field that its source owns, a patch only those that changed. Fields
that the contract does not have are ignored here; the log keeps the data as it came.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.attributes import TraceParent, UtcTime, VersionNumber
from schemas.strict_json import INT64_MAX

ERP_TYPE: Final = "erp.payment.v1"
PSP_TYPE: Final = "psp.payment.v1"
PAYMENT_ID_CHARACTERS_MAX: Final = 128

PaymentId = Annotated[str, Field(strict=True, min_length=1, max_length=PAYMENT_ID_CHARACTERS_MAX)]
Text = Annotated[str, Field(strict=True, min_length=1, max_length=256)]
UriReference = Annotated[str, Field(strict=True, min_length=1, max_length=2048)]
MinorUnits = Annotated[int, Field(strict=True, ge=0, le=INT64_MAX)]
Currency = Annotated[str, Field(strict=True, pattern="^[A-Z]{3}$")]

# A patch's absent field. It is never read (the fields are those in `model_fields_set`), so the
# type of the field stays what the wire allows: null is refused.
_ABSENT: Final[Any] = None


class ErpStatus(StrEnum):
    """What the ERP says of a payment."""

    PENDING = "pending"
    PAID = "paid"
    CANCELLED = "cancelled"
    REFUNDED = "refunded"


class PspStatus(StrEnum):
    """What the PSP says of one of its payments."""

    PENDING = "pending"
    AUTHORISED = "authorised"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class _Contract(BaseModel):
    """Unknown fields are ignored, values are never changed after validation."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)


class Amount(_Contract):
    """An amount on the wire."""

    minor: MinorUnits
    """Minor units, a JSON integer >= 0. Debit and credit are told by kind, never by sign."""
    currency: Currency
    """ISO 4217, upper case."""
    exponent: Annotated[int, Field(strict=True, ge=0, le=18)] | None = None
    """Decimal digits of the minor unit; given, it must be the one expected of the currency."""


class ErpData(_Contract):
    """Snapshot: every field that the ERP owns."""

    order_id: Text
    status: ErpStatus
    amount: Amount
    psp: Text | None = None
    """The provider account that the ERP expects the money from."""
    psp_reference: Text | None = None


class ErpPatch(_Contract):
    """Patch: only the ERP's fields that changed; null clears an optional one."""

    order_id: Text = _ABSENT
    status: ErpStatus = _ABSENT
    amount: Amount = _ABSENT
    psp: Text | None = None
    psp_reference: Text | None = None


class PspData(_Contract):
    """Snapshot: every field that the PSP owns of one of its payments."""

    psp: Text
    """The provider account."""
    psp_reference: Text
    status: PspStatus
    amount: Amount
    captured_minor: MinorUnits | None = None
    """Absent: the amount if succeeded, else 0. A given 0 means 0."""
    refunded_minor: MinorUnits = 0
    disputed_minor: MinorUnits = 0
    failure_code: Text | None = None


class PspPatch(_Contract):
    """Patch: only the PSP's fields that changed, and the two that say which PSP payment it is."""

    psp: Text
    """The provider account."""
    psp_reference: Text
    status: PspStatus = _ABSENT
    amount: Amount = _ABSENT
    captured_minor: MinorUnits | None = None
    """Null: again the amount if succeeded, else 0."""
    refunded_minor: MinorUnits = _ABSENT
    disputed_minor: MinorUnits = _ABSENT
    failure_code: Text | None = None


PaymentData = ErpData | ErpPatch | PspData | PspPatch


class Envelope(_Contract):
    """The CloudEvents 1.0 attributes of an incoming event, in JSON or as `ce_` headers."""

    specversion: Literal["1.0"]
    id: Text
    source: UriReference
    type: Literal["erp.payment.v1", "psp.payment.v1"]
    time: UtcTime
    """RFC 3339 with an offset."""
    subject: PaymentId
    """The payment id; also the record's key."""
    entityversion: VersionNumber
    """The source's version of this payment, 0 to 2^63-1."""
    versionepoch: VersionNumber = 0
    """Raised by the source when its version counter restarts."""
    changekind: Literal["snapshot", "patch"] = "snapshot"
    traceparent: TraceParent = None
    """W3C trace context."""


class ErpSnapshotEvent(Envelope):
    """`erp.payment.v1` with every field."""

    type: Literal["erp.payment.v1"]
    changekind: Literal["snapshot"] = "snapshot"
    data: ErpData


class ErpPatchEvent(Envelope):
    """`erp.payment.v1` with the fields that changed."""

    type: Literal["erp.payment.v1"]
    changekind: Literal["patch"]
    data: ErpPatch


class PspSnapshotEvent(Envelope):
    """`psp.payment.v1` with every field."""

    type: Literal["psp.payment.v1"]
    changekind: Literal["snapshot"] = "snapshot"
    data: PspData


class PspPatchEvent(Envelope):
    """`psp.payment.v1` with the fields that changed."""

    type: Literal["psp.payment.v1"]
    changekind: Literal["patch"]
    data: PspPatch


PaymentEvent = ErpSnapshotEvent | ErpPatchEvent | PspSnapshotEvent | PspPatchEvent

# One model a (type, changekind): a record is validated by one call, without trying a union.
MODELS: Final[dict[tuple[str, str], type[PaymentEvent]]] = {
    (ERP_TYPE, "snapshot"): ErpSnapshotEvent,
    (ERP_TYPE, "patch"): ErpPatchEvent,
    (PSP_TYPE, "snapshot"): PspSnapshotEvent,
    (PSP_TYPE, "patch"): PspPatchEvent,
}
