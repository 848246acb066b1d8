"""Why PostgreSQL, or a pooler before it, lets nobody in; told by SQLSTATE where there is one."""

import socket

from service.diagnosis.causes import TlsSettings, causes, tls_advice, words

URL = "RECONCILER_DATABASE__URL"
POOLER_REMEDY = (
    "behind PgBouncer set ignore_startup_parameters ="
    " lock_timeout,statement_timeout,idle_in_transaction_session_timeout,jit there,"
    " and these limits on the role (ALTER ROLE … SET …)"
)
STATEMENT_REMEDY = (
    "a pooler hands out another session for each transaction: set"
    " RECONCILER_DATABASE__STATEMENT_CACHE=false"
)
_TLS = TlsSettings(
    authority="RECONCILER_DATABASE__SSL_ROOT_CERT_FILE",
    certificate="RECONCILER_DATABASE__SSL_CERT_FILE and _SSL_KEY_FILE",
    address=URL,
    other_host=", or RECONCILER_DATABASE__SSL_MODE be verify-ca",
)
# With TLS 1.3 a client's certificate is refused after the handshake; the alert may get lost.
_ENDED = (
    "the server ended the connection: its log says why; if it asks for a client certificate,"
    f" check {_TLS.certificate}"
)
_ADVICE = {
    "08003": _ENDED,
    "28P01": f"RECONCILER_DATABASE__PASSWORD_FILE (else {URL}) has to hold the user's password",
    "3D000": f"create the database, or correct its name in {URL}",
    "53300": "raise the server's max_connections, or lower RECONCILER_DATABASE__POOL_MAX",
    "26000": STATEMENT_REMEDY,
    "42P05": STATEMENT_REMEDY,
}


def database_trouble(error: BaseException, *, setting: str = URL) -> str:
    """What went wrong, what to look at and what to do; `setting` where nothing better is known."""
    for cause in causes(error):
        if advice := _advice(cause):
            return f"the database cannot be used ({words(cause)}); {advice}"
    told = getattr(error, "orig", None) or error
    return f"the database cannot be used ({words(told)}); check {setting}"


def _advice(error: BaseException) -> str | None:
    sqlstate = getattr(error, "sqlstate", None)
    if isinstance(sqlstate, str):
        return _server_advice(sqlstate, str(error))
    if (advice := tls_advice(error, _TLS)) is not None:
        return advice
    match error:
        case socket.gaierror():
            return f"the host in {URL} is not known here"
        case ConnectionError() if "rejected SSL upgrade" in str(error):
            return (
                "the server speaks no TLS: turn it on there, or demand none with"
                " RECONCILER_DATABASE__SSL_MODE"
            )
        case ConnectionResetError() | BrokenPipeError():
            return _ENDED
        case TimeoutError():
            return f"nobody answered in time: check host and port in {URL}"
        case _:
            return None


def _server_advice(sqlstate: str, said: str) -> str | None:
    # Both classes have one code for several things; only their words tell them apart.
    if sqlstate == "28000":
        if "certificate" in said:
            return f"the server asks for a client certificate: check {_TLS.certificate}"
        return (
            f"the server lets nobody in this way: check the user in {URL},"
            " RECONCILER_DATABASE__SSL_MODE, and the server's pg_hba.conf"
        )
    if sqlstate == "08P01" and "startup parameter" in said:
        return POOLER_REMEDY
    return _ADVICE.get(sqlstate)
