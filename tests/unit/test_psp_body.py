"""The body of a generic answer: strict, and silent about values when it refuses."""

import json
from typing import Any

import pytest

from schemas.fields import NO_EXCEPTIONS
from service.psp.body import Nonsense, read_answered
from service.psp.port import Answered, Question

PAID: dict[str, Any] = {
    "psp": "acme-eu",
    "psp_reference": "ref-1",
    "status": "succeeded",
    "amount": {"minor": 1999, "currency": "EUR"},
}


def read(body: bytes, **exponents: dict[str, int]) -> Answered:
    named = {account.replace("_", "-"): exceptions for account, exceptions in exponents.items()}
    question = Question(payment_id="pay-1")
    return read_answered(body, question, exponents=named or NO_EXCEPTIONS, request_id=None)


def paid_but(**changes: Any) -> bytes:
    return json.dumps({**PAID, **changes}).encode()


@pytest.mark.parametrize(
    ("changes", "captured_minor"),
    [
        ({}, 1999),
        ({"captured_minor": None}, 1999),
        ({"captured_minor": 0}, 0),
        ({"captured_minor": 500}, 500),
        ({"status": "authorised"}, 0),
        ({"status": "authorised", "captured_minor": 500}, 500),
    ],
)
def test_absent_capture_is_the_amount_only_if_succeeded_and_a_given_zero_is_zero(
    changes: dict[str, Any], captured_minor: int
) -> None:
    assert read(paid_but(**changes)).captured_minor == captured_minor


@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ({}, (None, 0)),
        ({"entityversion": None, "versionepoch": None}, (None, 0)),
        ({"entityversion": 7}, (7, 0)),
        ({"entityversion": "0"}, (0, 0)),
        ({"entityversion": "9223372036854775807", "versionepoch": "2"}, (2**63 - 1, 2)),
    ],
)
def test_version_is_a_decimal_string_or_an_integer_and_may_be_absent(
    changes: dict[str, Any], version: tuple[int | None, int]
) -> None:
    answer = read(paid_but(**changes))
    assert (answer.entityversion, answer.versionepoch) == version


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"amount": {"minor": 19.99, "currency": "EUR"}}, "amount.minor"),
        ({"amount": {"minor": 1999.0, "currency": "EUR"}}, "amount.minor"),
        ({"amount": {"minor": "1999", "currency": "EUR"}}, "amount.minor"),
        ({"amount": {"minor": True, "currency": "EUR"}}, "amount.minor"),
        ({"amount": {"minor": -1, "currency": "EUR"}}, "amount.minor"),
        ({"amount": {"minor": 1, "currency": "XXQ"}}, "currency"),
        ({"amount": {"minor": 1, "currency": "EUR", "exponent": 3}}, "exponent"),
        ({"amount": None}, "amount"),
        ({"refunded_minor": 0.5}, "refunded_minor"),
        ({"captured_minor": False}, "captured_minor"),
        ({"status": "SUCCEEDED"}, "status"),
        ({"status": "refunded"}, "status"),
        ({"psp": ""}, "psp"),
        ({"psp_reference": 17}, "psp_reference"),
        ({"entityversion": -1}, "entityversion"),
        ({"entityversion": 1.0}, "entityversion"),
        ({"entityversion": True}, "entityversion"),
        ({"entityversion": "v7"}, "entityversion"),
        ({"versionepoch": "9223372036854775808"}, "versionepoch"),
    ],
)
def test_wrong_field_is_nonsense_that_names_the_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(Nonsense, match=field):
        read(paid_but(**changes))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"<html></html>",
        paid_but()[:-1],
        paid_but() + b"{}",
        b'{"status": "failed", ' + paid_but()[1:],
        paid_but(note=float("nan")),
        paid_but(note=2**80),
        paid_but(note="\x00"),
        b'{"note":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b"\xff\xfe",
    ],
)
def test_body_that_two_readers_could_understand_differently_is_nonsense(body: bytes) -> None:
    with pytest.raises(Nonsense):
        read(body)


def test_refusal_shows_no_value() -> None:
    with pytest.raises(Nonsense) as refused:
        read(paid_but(status="sk_live_secret"))
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_exception_of_one_account_does_not_hold_for_another() -> None:
    body = paid_but(amount={"minor": 500, "currency": "ISK", "exponent": 2})
    assert read(body, acme_eu={"ISK": 2}).amount_minor == 5
    with pytest.raises(Nonsense, match="exponent"):
        read(body, acme_us={"ISK": 2})


def test_unknown_fields_are_kept_as_they_came() -> None:
    assert read(paid_but(risk={"score": 1})).data["risk"] == {"score": 1}
