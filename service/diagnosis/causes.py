"""What lies behind an exception, and what certificates have to do with it."""

import ssl
from dataclasses import dataclass

from service.observe.redaction import mask_text

# OpenSSL's numbers for why a certificate was not accepted.
_NOT_YET_VALID, _EXPIRED = 9, 10
_OTHER_HOST, _OTHER_ADDRESS = 62, 64
_WORDS_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How one connection's settings are called."""

    authority: str
    certificate: str
    address: str
    other_host: str


def causes(error: BaseException) -> list[BaseException]:
    """The error and what it wraps, the innermost first; wrapped by SQLAlchemy or by `from`.

    What was merely being handled meanwhile is left out: it need not be the reason.
    """
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop(0)
        if isinstance(current, BaseException) and all(current is not each for each in found):
            found.append(current)
            waiting += [getattr(current, "orig", None), current.__cause__]
    return found[::-1]


def words(error: BaseException) -> str:
    """An exception's class and first line, masked and bounded."""
    lines = mask_text(str(error)).splitlines()
    said = f": {lines[0][:_WORDS_MAX]}" if lines and lines[0] else ""
    return f"{type(error).__name__}{said}"


def tls_advice(error: BaseException, settings: TlsSettings) -> str | None:
    """The setting to look at and the remedy, or None where no handshake is to blame."""
    if not isinstance(error, ssl.SSLError):
        return None
    if not isinstance(error, ssl.SSLCertVerificationError):
        return _handshake_advice(error, settings)
    code = getattr(error, "verify_code", None)
    if code in {_EXPIRED, _NOT_YET_VALID}:
        return "the server's certificate is not valid now: renew it there, or set the clock"
    if code in {_OTHER_HOST, _OTHER_ADDRESS}:
        return (
            f"the server's certificate is made out to another host: {settings.address} has to name"
            f" one that it holds{settings.other_host}"
        )
    return f"{settings.authority} has to hold the authority that signed the server's certificate"


def _handshake_advice(error: ssl.SSLError, settings: TlsSettings) -> str:
    reason = (error.reason or "").upper()
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return (
            f"the server asks for a client certificate that it trusts: check {settings.certificate}"
        )
    return f"the TLS handshake failed: check that {settings.address} names a port that speaks TLS"
