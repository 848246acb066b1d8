"""What an HTTP reply says apart from its body."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.psp.reply import request_id, retry_after_seconds, without_answer

DATE = "Wed, 21 Oct 2015 07:28:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": " 17 "}, 17.0),
        ({"Retry-After": "9" * 5000}, 86_400.0),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "1.5"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "²"}, None),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT", "Date": DATE}, 30.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:27:00 GMT", "Date": DATE}, 0.0),
        ({"Retry-After": "Wed, 21 Oct 9999 07:28:00 GMT", "Date": DATE}, 86_400.0),
        ({"Retry-After": DATE}, 0.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:30 +99999999999999999999"}, None),
        ({"Retry-After": "99999999999 Oct 2015 12:30:00 GMT"}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_at_most_a_day(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_seconds(headers) == seconds


@given(value=st.text(max_size=60), date=st.text(max_size=60))
def test_no_header_text_makes_retry_after_raise(value: str, date: str) -> None:
    seconds = retry_after_seconds({"Retry-After": value, "Date": date})
    assert seconds is None or 0 <= seconds <= 86_400


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (204, "nonsense"),
        (301, "nonsense"),
        (307, "nonsense"),
        (400, "nonsense"),
        (401, "refused"),
        (403, "refused"),
        (407, "nonsense"),
        (408, "timeout"),
        (410, "nonsense"),
        (429, "throttled"),
        (500, "server_error"),
        (503, "server_error"),
        (599, "server_error"),
    ],
)
def test_every_other_status_is_no_answer_and_never_not_found(status: int, reason: str) -> None:
    unavailable = without_answer(status, {})
    assert unavailable is not None
    assert unavailable.reason == reason


@pytest.mark.parametrize("status", [200, 404])
def test_only_the_body_decides_of_200_and_404(status: int) -> None:
    assert without_answer(status, {}) is None


def test_request_id_is_short_and_printable() -> None:
    assert request_id({"X-Request-Id": "r" * 500}) == "r" * 128
    assert request_id({"Request-Id": "req_1"}) == "req_1"
    assert request_id({"X-Request-Id": "a\x1b[31m"}) is None
    assert request_id({}) is None
