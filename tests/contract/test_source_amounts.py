"""Foreign amounts become exact minor units, or are refused."""

from decimal import Decimal
from typing import Any

import pytest

from schemas.currency import ISO_4217
from schemas.refusal import Reason, Refused
from schemas.sources.amounts import (
    decimal_minor,
    iso_exponent,
    iso_minor,
    number_minor,
    whole_minor,
)
from schemas.sources.decimals import base64_decimal


@pytest.mark.parametrize(
    ("text", "currency", "minor"),
    [
        ("18.60", "KWD", 18600),
        ("18.6", "EUR", 1860),
        ("500", "JPY", 500),
        ("500.00", "JPY", 500),
        ("29.50000", "EUR", 2950),
        ("0.00", "EUR", 0),
        ("92233720368547758.07", "EUR", 2**63 - 1),
    ],
)
def test_decimal_text_is_exact_minor_units(text: str, currency: str, minor: int) -> None:
    assert decimal_minor(text, ISO_4217[currency], "total") == minor


@pytest.mark.parametrize(
    "text",
    [
        *("29.4847", "-1.00", "+1.00", "1,234.00", "1.234,00", "1e3", ".5", "5.", "NaN", "٣.00"),
        *("", " 1.00", "1.00\n", "92233720368547758.08", "9" * 60),
    ],
)
def test_decimal_text_that_is_no_exact_amount_is_refused(text: str) -> None:
    with pytest.raises(Refused) as caught:
        decimal_minor(text, 2, "total")
    assert caught.value.reason is Reason.BAD_AMOUNT
    assert caught.value.field == "total"


@pytest.mark.parametrize(
    ("value", "minor"), [(10, 1000), (Decimal("1.1"), 110), ("1.1", 110), (Decimal("1E+2"), 10000)]
)
def test_json_number_of_major_units_is_read_exactly(value: Any, minor: int) -> None:
    assert number_minor(value, 2, "price") == minor


@pytest.mark.parametrize(
    "value", [1.1, True, None, Decimal("29.4847"), Decimal(-1), Decimal("1E+300"), {}, -1]
)
def test_number_that_is_no_exact_amount_is_refused(value: Any) -> None:
    with pytest.raises(Refused) as caught:
        number_minor(value, 2, "price")
    assert caught.value.reason is Reason.BAD_AMOUNT


@pytest.mark.parametrize("value", [18.6, "18.60", -1, True, None, "²", "9" * 40])
def test_minor_units_that_are_no_whole_number_are_refused(value: Any) -> None:
    with pytest.raises(Refused):
        whole_minor(value, "amount")


def test_units_of_another_exponent_are_converted_only_if_exact() -> None:
    assert iso_minor(500, "amount", own=2, iso=0) == 5
    assert iso_minor(5, "amount", own=0, iso=2) == 500
    with pytest.raises(Refused) as caught:
        iso_minor(550, "amount", own=2, iso=0)
    assert caught.value.reason is Reason.BAD_EXPONENT


def test_unknown_currency_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        iso_exponent("EURO", "currency")
    assert caught.value.reason is Reason.BAD_AMOUNT


@pytest.mark.parametrize(
    ("encoded", "scale", "text"),
    [("B0Q=", 2, "18.60"), ("B0Q=", 0, "1860"), ("/w==", 2, "-0.01"), ("AA==", 2, "0.00")],
)
def test_connect_decimal_is_read_exactly(encoded: str, scale: int, text: str) -> None:
    assert base64_decimal(encoded, scale, "total") == text


@pytest.mark.parametrize("encoded", ["18.60", "", "B0Q", 12, None, "A" * 100])
def test_what_is_no_connect_decimal_is_refused(encoded: Any) -> None:
    with pytest.raises(Refused) as caught:
        base64_decimal(encoded, 2, "total")
    assert caught.value.reason is Reason.BAD_AMOUNT
