"""Settings that are right one by one and cannot work together."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from urllib.parse import parse_qs, urlsplit

from service.settings import Settings

# One connection each for ingest, the grouped job writes, scheduler and watcher, and outbox with
# samplers; heartbeats have their own. With fewer, one part starves the others.
POOL_MIN = 4


@dataclass(frozen=True)
class Rule:
    """A relation between settings; the first of `names` is the one to change."""

    names: tuple[str, ...]
    holds: Callable[["Settings"], bool]
    allowed: str
    remedy: str


def _ssl_modes_agree(settings: "Settings") -> bool:
    url, mode = settings.database.url, settings.database.ssl_mode
    if url is None or mode is None:
        return True
    said = parse_qs(urlsplit(url.get_secret_value()).query).get("sslmode", [mode])
    return said == [mode]


def _ssl_files_are_used(settings: "Settings") -> bool:
    database = settings.database
    files = (database.ssl_root_cert_file, database.ssl_cert_file, database.ssl_key_file)
    return database.ssl_mode != "disable" or not any(files)


def _sasl_is_complete(settings: "Settings") -> bool:
    kafka = settings.kafka
    parts = (kafka.sasl_mechanism, kafka.sasl_username, kafka.sasl_password)
    return not kafka.security_protocol.startswith("SASL_") or all(parts)


def _sasl_is_used(settings: "Settings") -> bool:
    kafka = settings.kafka
    parts = (kafka.sasl_mechanism, kafka.sasl_username, kafka.sasl_password)
    return kafka.security_protocol.startswith("SASL_") or not any(parts)


def _tls_is_used(settings: "Settings") -> bool:
    kafka = settings.kafka
    parts = (kafka.tls_ca_file, kafka.tls_cert_file, kafka.tls_key_file, kafka.tls_key_password)
    return kafka.security_protocol.endswith("SSL") or not any(parts)


def _topics_differ(settings: "Settings") -> bool:
    kafka = settings.kafka
    written = {kafka.outcome_topic, kafka.dead_letter_topic}
    # The two sources may share a topic: an event says itself whose it is.
    return len(written) == 2 and written.isdisjoint({kafka.erp_topic, kafka.psp_topic})


def _of_decoder(
    source: str, holds: Callable[[str, str | None], bool], settings: "Settings"
) -> bool:
    kafka = settings.kafka
    if source == "erp":
        return holds(kafka.erp_decoder, kafka.erp_decoder_file)
    return holds(kafka.psp_decoder, kafka.psp_decoder_file)


def _decoder_file_is_given(decoder: str, file: str | None) -> bool:
    return file is not None or decoder in ("cloudevents", "stripe")


def _decoder_file_is_used(decoder: str, file: str | None) -> bool:
    return file is None or decoder != "cloudevents"


def _readers_agree(settings: "Settings") -> bool:
    kafka = settings.kafka
    as_one = (kafka.erp_decoder, kafka.erp_decoder_file)
    same = as_one == (kafka.psp_decoder, kafka.psp_decoder_file)
    return kafka.erp_topic != kafka.psp_topic or same


RULES = (
    Rule(
        ("lease.ttl_seconds", "lease.heartbeat_seconds"),
        lambda s: s.lease.ttl_seconds >= 3 * s.lease.heartbeat_seconds,
        "at least 3 heartbeats, so that two lost rounds do not lose a lease",
        "raise the TTL or shorten the heartbeat",
    ),
    Rule(
        ("lease.ttl_seconds", "psp.budget_seconds"),
        lambda s: s.lease.ttl_seconds > s.psp.budget_seconds,
        "above the PSP budget, so that an answer never comes after the lease",
        "raise the TTL or lower the budget",
    ),
    Rule(
        ("psp.timeout_seconds", "psp.budget_seconds"),
        lambda s: s.psp.timeout_seconds <= s.psp.budget_seconds,
        "at most the budget of all tries",
        "lower the time-out of one try or raise the budget",
    ),
    Rule(
        ("psp.adapter", "psp.token_file"),
        lambda s: s.psp.adapter == "generic" or s.psp.token_file is not None,
        "together with the file of the account's secret key",
        "set the token file",
    ),
    Rule(
        ("database.pool_max",),
        lambda s: s.database.pool_max >= POOL_MIN,
        f"at least {POOL_MIN}: one connection for each part that writes",
        "raise the pool; job writes are grouped, so concurrency needs no more",
    ),
    Rule(
        ("database.pool_min", "database.pool_max"),
        lambda s: s.database.pool_min <= s.database.pool_max,
        "at most the pool's maximum",
        "lower the minimum or raise the maximum",
    ),
    Rule(
        ("database.ssl_mode", "database.url"),
        _ssl_modes_agree,
        "the same mode as the URL's sslmode",
        "say it in one place only",
    ),
    Rule(
        ("database.ssl_mode", "database.ssl_cert_file"),
        _ssl_files_are_used,
        "a mode that uses the certificate files given",
        "choose verify-full, or unset the files",
    ),
    Rule(
        ("database.ssl_key_file", "database.ssl_cert_file"),
        lambda s: s.database.ssl_key_file is None or s.database.ssl_cert_file is not None,
        "together with the certificate it belongs to",
        "set the certificate file too",
    ),
    Rule(
        ("kafka.security_protocol", "kafka.sasl_mechanism", "kafka.sasl_username"),
        _sasl_is_complete,
        "together with sasl_mechanism, sasl_username and sasl_password",
        "set the three, or choose a protocol without SASL",
    ),
    Rule(
        ("kafka.security_protocol", "kafka.sasl_mechanism", "kafka.sasl_username"),
        _sasl_is_used,
        "SASL_SSL or SASL_PLAINTEXT where SASL settings are given",
        "choose one of them, or unset the SASL settings",
    ),
    Rule(
        ("kafka.security_protocol", "kafka.tls_ca_file"),
        _tls_is_used,
        "SSL or SASL_SSL where TLS files are given",
        "choose one of them, or unset the TLS settings",
    ),
    Rule(
        ("kafka.tls_key_file", "kafka.tls_cert_file"),
        lambda s: s.kafka.tls_key_file is None or s.kafka.tls_cert_file is not None,
        "together with the certificate it belongs to",
        "set the certificate file too",
    ),
    *(
        Rule(
            (f"kafka.{source}_decoder", f"kafka.{source}_decoder_file"),
            partial(_of_decoder, source, _decoder_file_is_given),
            "together with the file of its declaration",
            "set the decoder's file",
        )
        for source in ("erp", "psp")
    ),
    *(
        Rule(
            (f"kafka.{source}_decoder_file", f"kafka.{source}_decoder"),
            partial(_of_decoder, source, _decoder_file_is_used),
            "only with a decoder that reads it",
            "choose the decoder, or unset its file",
        )
        for source in ("erp", "psp")
    ),
    Rule(
        ("kafka.psp_decoder", "kafka.erp_decoder", "kafka.psp_topic", "kafka.erp_topic"),
        _readers_agree,
        "the ERP's decoder and file where both sources share a topic",
        "give the sources topics of their own, or one decoder",
    ),
    Rule(
        ("kafka.outcome_topic", "kafka.dead_letter_topic", "kafka.erp_topic", "kafka.psp_topic"),
        _topics_differ,
        "a topic apart from the others: what is written must not be read again",
        "give the outcome and the dead-letter topic names of their own",
    ),
)
