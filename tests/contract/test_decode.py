"""Decoding: what an event holds, what counts as the same content, and what is refused."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.cloudevent import Event, Tombstone, decode
from schemas.money import Money
from schemas.refusal import Reason, Refused
from tests.contract.records import refusal_of

PSP: dict[str, Any] = {
    "psp": "acme-eu",
    "psp_reference": "ch_1",
    "status": "succeeded",
    "amount": {"minor": 1000, "currency": "EUR"},
}
ERP: dict[str, Any] = {
    "order_id": "SO-1",
    "status": "pending",
    "amount": {"minor": 1000, "currency": "EUR"},
}


def cloudevent(data: Any, **attributes: Any) -> dict[str, Any]:
    kind = "erp" if isinstance(data, dict) and "order_id" in data else "psp"
    return {
        "specversion": "1.0",
        "id": "e-1",
        "source": f"/{kind}",
        "type": f"{kind}.payment.v1",
        "time": "2026-03-04T12:00:00Z",
        "subject": "pay-1",
        "entityversion": "1",
        "data": data,
    } | attributes


def decoded(data: Any, *, exponents: Any = None, **attributes: Any) -> Event:
    value = json.dumps(cloudevent(data, **attributes)).encode()
    event = decode(key=b"pay-1", value=value, headers=[], exponents=exponents or {})
    assert isinstance(event, Event)
    return event


def refused(data: Any, **attributes: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        decoded(data, **attributes)
    return caught.value


def test_snapshot_holds_all_known_fields_after_defaults_and_the_data_as_it_came() -> None:
    event = decoded(PSP | {"extra": 1})
    assert event.fields == {
        "psp": "acme-eu",
        "psp_reference": "ch_1",
        "status": "succeeded",
        "amount": Money(1000, "EUR"),
        "captured_minor": None,
        "refunded_minor": 0,
        "disputed_minor": 0,
        "failure_code": None,
    }
    assert event.data == PSP | {"extra": 1}
    assert (event.kind, event.epoch, event.version, event.key_absent) == ("psp", 0, 1, False)


def test_patch_holds_only_what_it_sets() -> None:
    event = decoded({"status": "paid", "extra": 1}, type="erp.payment.v1", changekind="patch")
    assert event.fields == {"status": "paid"}


def test_given_zero_captured_stays_zero() -> None:
    assert decoded(PSP | {"captured_minor": 0}).fields["captured_minor"] == 0


def test_same_content_has_the_same_digest_whatever_its_form() -> None:
    digest = decoded(PSP).digest
    reordered = dict(reversed(PSP.items()))
    exponent = PSP | {"amount": {"currency": "EUR", "exponent": 2, "minor": 1000}}
    defaults = PSP | {"refunded_minor": 0, "captured_minor": 1000, "failure_code": None}
    for same in (reordered, exponent, defaults, PSP | {"unknown": "x"}):
        assert decoded(same).digest == digest
    later = decoded(PSP, id="e-2", time="2027-01-01T00:00:00+02:00", source="/other")
    assert later.digest == digest


def test_other_content_has_another_digest() -> None:
    others: list[dict[str, Any]] = [
        PSP | {"captured_minor": 0},
        PSP | {"refunded_minor": 1},
        PSP | {"disputed_minor": 1},
        PSP | {"failure_code": "None"},
        PSP | {"status": "failed"},
        PSP | {"amount": {"minor": 1001, "currency": "EUR"}},
        PSP | {"amount": {"minor": 1000, "currency": "USD"}},
    ]
    digests = {decoded(data).digest for data in [PSP, *others]}
    digests.add(decoded(PSP, changekind="patch").digest)
    assert len(digests) == len(others) + 2


def test_patch_that_sets_every_field_is_not_the_snapshot_of_the_same_values() -> None:
    full = PSP | {
        "captured_minor": 0,
        "refunded_minor": 0,
        "disputed_minor": 0,
        "failure_code": "x",
    }
    assert decoded(full).fields == decoded(full, changekind="patch").fields
    assert decoded(full).digest != decoded(full, changekind="patch").digest


def test_patch_that_clears_a_field_differs_from_one_that_leaves_it() -> None:
    key = {"psp": "acme-eu", "psp_reference": "ch_1"}
    leaves = decoded(key, changekind="patch")
    clears = decoded(key | {"captured_minor": None}, changekind="patch")
    assert leaves.digest != clears.digest
    assert "captured_minor" in clears.fields


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-04T01:30:00+02:00", datetime(2026, 3, 3, 23, 30, tzinfo=UTC)),
        ("2026-03-04t12:00:00.1z", datetime(2026, 3, 4, 12, 0, 0, 100_000, tzinfo=UTC)),
        ("2026-03-04T12:00:00.123456999Z", datetime(2026, 3, 4, 12, 0, 0, 123_456, tzinfo=UTC)),
        ("2016-12-31T23:59:60Z", datetime(2016, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_time_is_read_with_its_offset_and_kept_in_utc(text: str, expected: datetime) -> None:
    """Reported as mollie/Shopware6 19."""
    time = decoded(PSP, time=text).time
    assert time == expected
    assert time.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-04T12:00:00",
        "2026-03-04 12:00:00Z",
        "2026-03-04T12:00Z",
        "2026-03-04T12:00:61Z",
        "2026-03-04T24:00:01Z",
        "2026-03-04T12:00:00+24:00",
        "2026-03-04T12:00:00+0100",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-00:01",
        "٢٠٢٦-03-04T12:00:00Z",
        "2026-W10-3T12:00:00Z",
        "",
    ],
)
def test_other_times_are_refused(text: str) -> None:
    """Reported as asyncpg 474."""
    assert refused(PSP, time=text).reason is Reason.BAD_TIME


@pytest.mark.parametrize("version", [0, "0", "007", 2**63 - 1, str(2**63 - 1)])
def test_version_is_a_decimal_string_or_an_integer(version: Any) -> None:
    event = decoded(PSP, entityversion=version, versionepoch=version)
    assert event.version == event.epoch == int(version)


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.0", Reason.UNKNOWN_VALUE),
        (" 1", Reason.UNKNOWN_VALUE),
        ("1_0", Reason.UNKNOWN_VALUE),
        ("1\n", Reason.UNKNOWN_VALUE),
        ("٣", Reason.UNKNOWN_VALUE),
        ("", Reason.UNKNOWN_VALUE),
        (False, Reason.UNKNOWN_VALUE),
        ([1], Reason.UNKNOWN_VALUE),
        (-1, Reason.INTEGER_RANGE),
        ("1" * 5000, Reason.INTEGER_RANGE),
        (None, Reason.MISSING_FIELD),
    ],
)
def test_other_versions_are_refused(version: Any, reason: Reason) -> None:
    """Reported as asyncpg 391."""
    assert refused(PSP, entityversion=version).reason is reason


def test_exception_of_a_psp_account_replaces_the_iso_exponent() -> None:
    exponents = {"acme-eu": {"ISK": 2}}
    given_two = PSP | {"amount": {"minor": 1000, "currency": "ISK", "exponent": 2}}
    given_none = PSP | {"amount": {"minor": 1000, "currency": "ISK", "exponent": 0}}
    assert decoded(given_two, exponents=exponents).fields["amount"] == Money(10, "ISK")
    assert refused(given_two).reason is Reason.BAD_EXPONENT
    assert refused(given_none, exponents=exponents).reason is Reason.BAD_EXPONENT
    other_account = given_two | {"psp": "other"}
    assert refused(other_account, exponents=exponents).reason is Reason.BAD_EXPONENT


@pytest.mark.parametrize(
    "traceparent",
    ["", "00-x", f"ff-{'1' * 32}-{'1' * 16}-01", f"00-{'0' * 32}-{'1' * 16}-01", 5],
)
def test_invalid_traceparent_is_none_and_refuses_nothing(traceparent: Any) -> None:
    assert decoded(PSP, traceparent=traceparent).traceparent is None


def test_null_value_is_a_tombstone_whatever_the_key() -> None:
    for key, payment_id in ((b"pay-1", "pay-1"), (None, None), (b"\xff", None)):
        assert decode(key=key, value=None, headers=[]) == Tombstone(payment_id)


def test_absent_key_is_accepted_and_marked() -> None:
    value = json.dumps(cloudevent(ERP)).encode()
    event = decode(key=None, value=value, headers=[])
    assert isinstance(event, Event)
    assert event.key_absent


def test_refusal_names_payment_field_value_and_remedy() -> None:
    refusal = refused(PSP | {"status": "settled"})
    assert refusal.payment_id == "pay-1"
    assert refusal.field == "data.status"
    assert "'settled'" in refusal.detail
    assert "'succeeded'" in refusal.detail


def test_refusal_of_unreadable_value_takes_the_payment_from_the_key() -> None:
    with pytest.raises(Refused) as caught:
        decode(key=b"pay-1", value=b"{", headers=[])
    assert caught.value.payment_id == "pay-1"


@pytest.mark.parametrize("number", ["4111111111111111", "4111 1111 1111 1111"])
def test_refusal_masks_card_numbers_and_shortens_long_values(number: str) -> None:
    detail = refused(PSP | {"status": number}).detail
    assert number not in detail
    assert "********1111" in detail
    assert "x" * 65 not in refused(PSP | {"status": "x" * 5000}).detail


def test_refusal_of_unstorable_text_is_itself_storable() -> None:
    with pytest.raises(Refused) as caught:
        decode(key=None, value=rb'{"\u0000\ud800": 1, "\u0000\ud800": 1}', headers=[])
    assert caught.value.reason is Reason.DUPLICATE_KEY
    assert caught.value.detail.isprintable()


_ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3)
    ),
    max_leaves=8,
)
_NAMES = st.sampled_from([*cloudevent(PSP), "versionepoch", "changekind", "data_base64"])
_FIELDS = st.sampled_from([*PSP, "captured_minor", "refunded_minor", "failure_code"])
_HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["content-type", "ce_id", "CE_SUBJECT", "ce_type", "ce_data"]) | st.text(),
        st.none()
        | st.binary(max_size=8)
        | st.sampled_from(
            [b"application/json", b"application/cloudevents+json", b"psp.payment.v1"]
        ),
    ),
    max_size=5,
)


def _decodes_or_is_refused(key: bytes | None, value: bytes, headers: Any) -> None:
    refusal = refusal_of(lambda: decode(key=key, value=value, headers=headers))
    assert refusal is None or refusal.detail.isprintable()


@given(st.none() | st.binary(max_size=8), st.binary(max_size=100), _HEADERS)
def test_arbitrary_records_decode_or_are_refused(key: Any, value: bytes, headers: Any) -> None:
    _decodes_or_is_refused(key, value, headers)


@given(_ANY_JSON, _HEADERS)
def test_arbitrary_json_decodes_or_is_refused(value: Any, headers: Any) -> None:
    _decodes_or_is_refused(None, json.dumps(value).encode(), headers)


@given(st.dictionaries(_NAMES, _ANY_JSON, max_size=2), st.dictionaries(_FIELDS, _ANY_JSON))
def test_valid_event_with_arbitrary_values_decodes_or_is_refused(
    attributes: dict[str, Any], fields: dict[str, Any]
) -> None:
    value = cloudevent(PSP | fields) | attributes
    _decodes_or_is_refused(b"pay-1", json.dumps(value).encode(), [])
