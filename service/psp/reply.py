"""What an HTTP reply says apart from its body; the same for every provider."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp

from service.psp.port import Unavailable, UnavailableReason

BODY_BYTES_MAX = 1024 * 1024
_REASONS: Mapping[int, UnavailableReason] = {
    401: "refused",
    403: "refused",
    408: "timeout",
    429: "throttled",
}
_RETRY_AFTER_SECONDS_MAX = 86_400.0
_REQUEST_ID_CHARACTERS_MAX = 128


def without_answer(status: int, headers: Mapping[str, str]) -> Unavailable | None:
    """Explain a status code that carries no answer; None for 200 and 404, whose body decides."""
    if status in {200, 404}:
        return None
    detail = f"status {status}"
    if 300 <= status < 400:
        detail = f"redirect {status}, not followed"
    return Unavailable(_reason(status), retry_after_seconds(headers), detail, request_id(headers))


def _reason(status: int) -> UnavailableReason:
    if status >= 500:
        return "server_error"
    return _REASONS.get(status, "nonsense")


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Read `Retry-After` (RFC 9110: seconds or a date), at most a day; None if absent or odd.

    A date is compared with the reply's own `Date`, so that a wrong clock here changes nothing.
    """
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(min(int(value[:9]), _RETRY_AFTER_SECONDS_MAX))
    until = _http_date(value)
    if until is None:
        return None
    now = _http_date(headers.get("Date", "")) or datetime.now(UTC)
    return min(max((until - now).total_seconds(), 0.0), _RETRY_AFTER_SECONDS_MAX)


def request_id(headers: Mapping[str, str]) -> str | None:
    """Return the id under which the provider's support finds this request."""
    value = headers.get("X-Request-Id") or headers.get("Request-Id")
    if value is None or not value.isprintable():
        return None
    return value[:_REQUEST_ID_CHARACTERS_MAX]


async def read_body(response: aiohttp.ClientResponse) -> bytes | None:
    """Read the body whole, or give up with None once it is over `BODY_BYTES_MAX`."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            return None
    return bytes(body)


def _http_date(value: str) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # the parser does not check the size of its numbers
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
