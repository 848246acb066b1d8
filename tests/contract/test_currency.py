"""Exponents of currencies."""

import pytest

from schemas.currency import ISO_4217, exponent_of


@pytest.mark.parametrize(
    ("currency", "exponent"),
    [("EUR", 2), ("JPY", 0), ("ISK", 0), ("KWD", 3), ("BHD", 3), ("CLF", 4), ("CLP", 0)],
)
def test_exponent_is_that_of_iso_4217(currency: str, exponent: int) -> None:
    assert exponent_of(currency) == exponent


@pytest.mark.parametrize("currency", ["XYZ", "eur", "", "XAU", "XTS"])
def test_what_is_no_currency_has_no_exponent(currency: str) -> None:
    assert exponent_of(currency) is None


def test_exceptions_come_first_and_only_for_their_currency() -> None:
    exceptions = {"ISK": 2}
    assert exponent_of("ISK", exceptions=exceptions) == 2
    assert exponent_of("JPY", exceptions=exceptions) == 0


def test_table_holds_three_letter_codes_once_each() -> None:
    assert all(len(code) == 3 and code.isupper() for code in ISO_4217)
    assert len(ISO_4217) > 160
