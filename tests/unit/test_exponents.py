"""Accounts that count a currency their own way: converted exactly, or a mismatch, never rounded."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.currency import ISO_4217
from schemas.events import ErpData, ErpPatch, PspData, PspPatch
from schemas.fields import digest_of, known_fields
from schemas.money import Money
from schemas.refusal import Reason, Refused
from schemas.units import SUMS, in_iso_units, rescaled
from service.domain.payment import Kind, Payment, Status
from service.psp.body import PspAnswer, read_answered
from service.psp.port import Question
from service.reconcile.questions import reply_of
from tests.unit.domain_events import NOW, after, asked, erp, psp

ACCOUNT = "acme"
minors = st.integers(0, 2**63 - 1)
exponents = st.integers(0, 6)
currencies = st.sampled_from(["JPY", "ISK", "EUR", "KWD", "CLF"])


def told(
    currency: str, own: int | None, *, minor: int, status: str = "succeeded", **sums: int
) -> dict[str, Any]:
    """The known fields of a snapshot by an account whose exponent is `own`."""
    amount = {"minor": minor, "currency": currency}
    data = {"psp": ACCOUNT, "psp_reference": "ch_1", "status": status, "amount": amount, **sums}
    exceptions = {} if own is None else {ACCOUNT: {currency: own}}
    return known_fields(PspData.model_validate(data), exponents=exceptions)


def _converted(currency: str, own: int, name: str) -> Any:
    sums: dict[str, Any] = {name: 1_000}
    return told(currency, own, minor=2_000, **sums)[name]


def paid(currency: str, minor: int, *, own: int | None = None, ordered: int) -> Payment:
    """The payment after the account took `minor` of its units for an order of ISO's `ordered`."""
    fields = told(currency, own, minor=minor)
    for name in ("psp", "psp_reference", "status"):
        del fields[name]
    return after(erp(1, amount=Money(ordered, currency)), psp(1, "succeeded", **fields))


@given(minor=minors, own=exponents, iso=exponents)
def test_conversion_is_exact_both_ways_or_refused(minor: int, own: int, iso: int) -> None:
    converted = rescaled(minor, own=own, iso=iso)
    if converted is None:
        assert minor % 10 ** (own - iso) != 0
    else:
        assert converted * 10**own == minor * 10**iso
        assert rescaled(converted, own=iso, iso=own) == minor


@given(currency=currencies, own=exponents, ordered=st.integers(1, 10**9))
def test_what_the_account_took_is_the_order_exactly_if_it_is(
    currency: str, own: int, ordered: int
) -> None:
    """No pair of an account's and ISO's exponents makes equal money differ or other money equal."""
    iso = ISO_4217[currency]
    taken = rescaled(ordered, own=iso, iso=own)
    if taken is not None:
        payment = paid(currency, taken, own=own, ordered=ordered)
        assert (payment.status, payment.open_kinds) == (Status.SUCCEEDED, [])
    floor = ordered * 10**own // 10**iso
    for other in {floor, floor + 1} - {taken}:
        payment = paid(currency, other, own=own, ordered=ordered)
        assert (payment.status, payment.open_kinds) == (Status.PENDING, ["AMOUNT_MISMATCH"])


@pytest.mark.parametrize(
    ("currency", "taken", "own", "ordered", "kinds"),
    [
        ("JPY", 50_000, None, 500, ["AMOUNT_MISMATCH"]),
        ("JPY", 50_000, 2, 500, []),
        ("JPY", 50_000, 2, 50_000, ["AMOUNT_MISMATCH"]),
        ("KWD", 1_860, None, 18_600, ["AMOUNT_MISMATCH"]),
        ("KWD", 18_600, None, 18_600, []),
        ("KWD", 1_860, 2, 18_600, []),
        ("KWD", 1_860, 2, 18_605, ["AMOUNT_MISMATCH"]),
        ("ISK", 1_000, 2, 10, []),
        ("ISK", 10, None, 10, []),
        ("ISK", 1_050, 2, 10, ["AMOUNT_MISMATCH"]),
        ("ISK", 1_050, 2, 1_050, ["AMOUNT_MISMATCH"]),
        ("ISK", 1_050, 2, 11, ["AMOUNT_MISMATCH"]),
        ("BHD", 18_600, 3, 18_600, []),
    ],
)
def test_reported_conversions(
    currency: str, taken: int, own: int | None, ordered: int, kinds: list[str]
) -> None:
    """Reported as Paymenter 1258, cal.diy 30038, adyen-commercetools 1085 and
    woocommerce-gateway-stripe 2720.
    """
    payment = paid(currency, taken, own=own, ordered=ordered)
    assert payment.open_kinds == kinds


def test_sum_that_is_not_whole_keeps_the_accounts_units_and_has_no_amount() -> None:
    fields = told("ISK", 2, minor=1_050, refunded_minor=50)
    assert fields["amount"] is None
    assert (fields["captured_minor"], fields["refunded_minor"]) == (1_050, 50)
    payment = paid("ISK", 1_050, own=2, ordered=10)
    case = payment.cases[Kind.AMOUNT_MISMATCH]
    assert (case.amount_at_risk_minor, case.currency) == (10, "ISK")
    assert (case.details["captured_minor"], case.details["captured_currency"]) == (1_050, None)


@pytest.mark.parametrize("name", SUMS)
def test_each_sum_is_converted_with_the_amount(name: str) -> None:
    assert _converted("ISK", 2, name) == 10
    assert _converted("MGA", 0, name) == 100_000


def test_absent_capture_still_follows_the_converted_amount() -> None:
    fields = told("ISK", 2, minor=2_000)
    assert (fields["amount"], fields["captured_minor"]) == (Money(20, "ISK"), None)
    assert told("ISK", 2, minor=2_050, status="pending")["captured_minor"] is None


@pytest.mark.parametrize("model", [ErpData, ErpPatch])
def test_erp_that_names_the_account_still_speaks_iso(model: type[Any]) -> None:
    data = {
        "order_id": "SO-1",
        "status": "pending",
        "amount": {"minor": 10, "currency": "ISK", "exponent": 0},
        "psp": ACCOUNT,
    }
    fields = known_fields(model.model_validate(data), exponents={ACCOUNT: {"ISK": 2}})
    assert fields["amount"] == Money(10, "ISK")


@pytest.mark.parametrize("name", SUMS)
def test_patch_with_a_sum_needs_the_currency_where_an_account_has_exceptions(name: str) -> None:
    bare = {"psp": ACCOUNT, "psp_reference": "ch_1", name: 1_000}
    with pytest.raises(Refused) as refused:
        known_fields(PspPatch.model_validate(bare), exponents={ACCOUNT: {"ISK": 2}})
    assert (refused.value.reason, refused.value.field) == (Reason.BAD_AMOUNT, f"data.{name}")
    assert known_fields(PspPatch.model_validate(bare), exponents={"other": {"ISK": 2}})[name]
    with_amount = bare | {"amount": {"minor": 2_000, "currency": "ISK"}}
    fields = known_fields(PspPatch.model_validate(with_amount), exponents={ACCOUNT: {"ISK": 2}})
    assert (fields["amount"], fields[name]) == (Money(20, "ISK"), 10)


def test_patch_with_nothing_to_convert_is_taken_from_any_account() -> None:
    patch = {"psp": ACCOUNT, "psp_reference": "ch_1", "status": "failed", "refunded_minor": 0}
    fields = known_fields(PspPatch.model_validate(patch), exponents={ACCOUNT: {"ISK": 2}})
    assert fields["refunded_minor"] == 0


def test_sum_beyond_64_bits_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        told("MGA", 0, minor=2**62)
    assert refused.value.reason is Reason.BAD_AMOUNT


def test_currency_that_only_the_account_knows_stays_as_it_is() -> None:
    fields = {"amount": Money(5, "XBT"), "captured_minor": 5}
    assert in_iso_units(fields, {"XBT": 8}) == fields


@pytest.mark.parametrize("minor", [1_000, 1_050])
@pytest.mark.parametrize("status", ["succeeded", "pending"])
def test_answer_says_what_the_event_of_its_version_says(minor: int, status: str) -> None:
    body = (
        f'{{"psp": "{ACCOUNT}", "psp_reference": "ch_1", "status": "{status}", "entityversion": 1,'
        f' "amount": {{"minor": {minor}, "currency": "ISK"}}}}'
    ).encode()
    exceptions = {ACCOUNT: {"ISK": 2}}
    answer = read_answered(body, Question("pay-1"), exponents=exceptions, request_id=None)
    reply = reply_of(answer, payment_id="pay-1", now=NOW, actor="worker")
    fields = told("ISK", 2, minor=minor, status=status)
    event = getattr(reply, "event", None)
    assert event is not None
    assert event.digest == digest_of(fields, "snapshot")
    assert PspAnswer.model_validate_json(body).amount.minor == minor
    payment = asked(after(erp(1, amount=Money(10, "ISK"))), reply).folded.payment
    mismatch = ["AMOUNT_MISMATCH"] if (status, minor) == ("succeeded", 1_050) else []
    assert payment.open_kinds == mismatch
