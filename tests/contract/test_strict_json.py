"""Strict JSON: exact, or refused with the reason; never another error."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.refusal import Reason, Refused
from schemas.strict_json import DEPTH_MAX, INT64_MAX, INT64_MIN, VALUE_BYTES_MAX, parse
from tests.contract.records import refusal_of

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(INT64_MIN, INT64_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda children: st.lists(children) | st.dictionaries(_TEXT, children),
    max_leaves=20,
)


def _refusal(raw: bytes) -> Refused:
    with pytest.raises(Refused) as caught:
        parse(raw)
    return caught.value


def _nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@given(_JSON)
def test_what_json_can_say_is_read_exactly(value: Any) -> None:
    assert parse(json.dumps(value).encode()) == value
    assert parse(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=200))
def test_arbitrary_bytes_parse_or_are_refused(raw: bytes) -> None:
    refusal = refusal_of(lambda: parse(raw))
    assert refusal is None or refusal.detail.isprintable()


@given(st.text('[]{}",:0129.eE+-\\u dDfF\ntrueNaN', max_size=60))
def test_almost_json_parses_or_is_refused(text: str) -> None:
    refusal = refusal_of(lambda: parse(text.encode()))
    assert refusal is None or refusal.detail.isprintable()


@pytest.mark.parametrize("number", [INT64_MIN, -1, 0, 10**18, INT64_MAX])
def test_integers_of_64_bits_are_exact(number: int) -> None:
    """Reported as KAFKA-10439 and ksql 4710."""
    assert parse(b"[%d]" % number) == [number]


@pytest.mark.parametrize("number", [b"9223372036854775808", b"-9223372036854775809", b"9" * 5000])
def test_longer_integers_are_refused_wherever_they_stand(number: bytes) -> None:
    assert _refusal(b'{"a": [{"b": ' + number + b"}]}").reason is Reason.INTEGER_RANGE


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400"])
def test_numbers_that_are_not_finite_are_refused(number: bytes) -> None:
    assert _refusal(b"[" + number + b"]").reason is Reason.NOT_FINITE


def test_depth_of_32_is_read_and_33_is_refused() -> None:
    assert parse(_nested(DEPTH_MAX))
    assert _refusal(_nested(DEPTH_MAX + 1)).reason is Reason.TOO_DEEP


@pytest.mark.parametrize("raw", [_nested(100_000), b"[" * 100_000, b'{"a":' * 100_000])
def test_depth_of_100000_is_refused_without_a_crash(raw: bytes) -> None:
    """Reported as vm0 31426."""
    assert _refusal(raw).reason is Reason.TOO_DEEP


def test_many_flat_containers_are_not_deep() -> None:
    assert len(parse(b"[" + b"{}," * 1000 + b"[]]")) == 1001


def test_one_mebibyte_is_read_and_a_byte_more_is_refused() -> None:
    text = b'"' + b"x" * (VALUE_BYTES_MAX - 2) + b'"'
    assert len(parse(text)) == VALUE_BYTES_MAX - 2
    assert _refusal(text + b" ").reason is Reason.TOO_LARGE


@pytest.mark.parametrize(
    "raw",
    [rb'"\u0000"', rb'{"\u0000": 1}', rb'[{"a": "\ud800"}]', rb'{"\udfff": 1}', rb'"\udc00\ud800"'],
)
def test_text_that_cannot_be_stored_is_refused_in_keys_and_values(raw: bytes) -> None:
    assert _refusal(raw).reason is Reason.BAD_TEXT


def test_escaped_pairs_and_other_escapes_are_text() -> None:
    assert parse(rb'"\ud83d\ude00 \u00e9 \\u0000"') == "\U0001f600 é \\u0000"


def test_a_name_given_twice_is_refused_and_named() -> None:
    refusal = _refusal(rb'{"a": {"minor": 1, "m\u0069nor": 1}}')
    assert (refusal.reason, refusal.field) == (Reason.DUPLICATE_KEY, "minor")


def test_names_that_differ_only_in_normalisation_are_two() -> None:
    assert len(parse('{"é": 1, "e\u0301": 2}'.encode())) == 2


def test_refusal_of_a_registry_frame_tells_the_remedy() -> None:
    refusal = _refusal(b'\x00\x00\x00\x00\x07{"a": 1}')
    assert refusal.reason is Reason.REGISTRY_FRAMED
    assert "plain JSON" in refusal.detail


def test_floats_keep_their_value() -> None:
    assert math.isclose(parse(b"1.25e2"), 125.0)
