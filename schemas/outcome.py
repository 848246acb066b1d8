"""The event that goes out: `reconciler.payment.v1`, one a visible change of a payment.

Delivered at least once and in order a payment: consumers compare `entityversion`.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.attributes import TraceParent, UtcTime
from schemas.events import (
    Amount,
    Currency,
    ErpStatus,
    MinorUnits,
    PaymentId,
    PspStatus,
    Text,
    UriReference,
)
from schemas.strict_json import INT64_MAX

OUTCOME_TYPE: Final = "reconciler.payment.v1"

SourceVersion = Annotated[int, Field(ge=0, le=INT64_MAX)]


class PaymentStatus(StrEnum):
    """The one status of a payment, derived from both views."""

    PENDING = "pending"
    AUTHORISED = "authorised"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    PARTIALLY_REFUNDED = "partially_refunded"
    REFUNDED = "refunded"
    DISPUTED = "disputed"


class DiscrepancyKind(StrEnum):
    """What can be wrong between the two views; one open a payment and kind."""

    AMOUNT_MISMATCH = "AMOUNT_MISMATCH"
    CURRENCY_MISMATCH = "CURRENCY_MISMATCH"
    PAID_AFTER_CANCEL = "PAID_AFTER_CANCEL"
    DUPLICATE_CAPTURE = "DUPLICATE_CAPTURE"
    MISSING_AT_PSP = "MISSING_AT_PSP"
    MISSING_AT_ERP = "MISSING_AT_ERP"
    VERSION_CONFLICT = "VERSION_CONFLICT"
    STUCK_PENDING = "STUCK_PENDING"
    ERP_PAID_PSP_NOT = "ERP_PAID_PSP_NOT"
    REFUND_MISSING = "REFUND_MISSING"
    ERP_NOT_SETTLED = "ERP_NOT_SETTLED"


class _View(BaseModel):
    """Consumers ignore fields that they do not know: more may come within v1."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)


class ErpView(_View):
    """What the ERP said last. A field that no event has set yet is null."""

    status: ErpStatus | None
    amount: Amount | None
    epoch: SourceVersion
    version: SourceVersion


class PspView(_View):
    """The deciding PSP payment. A field that no event has set yet is null."""

    psp: Text
    psp_reference: Text
    status: PspStatus | None
    amount_minor: MinorUnits | None
    currency: Currency | None
    captured_minor: MinorUnits | None
    refunded_minor: MinorUnits
    disputed_minor: MinorUnits


class PaymentView(_View):
    """A payment as the reconciler sees it."""

    payment_id: PaymentId
    order_id: Text | None
    """Null until the ERP is seen."""
    status: PaymentStatus
    row_version: SourceVersion
    erp: ErpView | None
    """Null until the ERP is seen."""
    psp: PspView | None
    """Null until the PSP is seen."""
    open_discrepancies: list[DiscrepancyKind]


class OutcomeEvent(_View):
    """The CloudEvent `reconciler.payment.v1`."""

    specversion: Literal["1.0"] = "1.0"
    id: Text
    source: UriReference
    type: Literal["reconciler.payment.v1"] = "reconciler.payment.v1"
    time: UtcTime
    subject: PaymentId
    """The payment id; also the record's key."""
    datacontenttype: Literal["application/json"] = "application/json"
    entityversion: Annotated[str, Field(pattern="^[0-9]{1,19}$")]
    """The payment's row version: it rises with every change that a user would see."""
    traceparent: TraceParent = None
    """W3C trace context."""
    data: PaymentView
