"""Settings to decoders: how each topic's records are read, checked before anything starts."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from schemas.currency import Exponents
from schemas.refusal import Refused
from schemas.sources.adyen import Adyen
from schemas.sources.debezium import Debezium
from schemas.sources.declaration import BadDeclaration, Declared, declared
from schemas.sources.mapping import Mapped
from schemas.sources.reading import document_of
from schemas.sources.stripe import Stripe
from service.connections import psp_exponents
from service.errors import ConfigurationError, Problem
from service.ingest.decode import Source
from service.settings import Settings
from service.settings_fields import variable

_Text = Annotated[str, Field(min_length=1, max_length=256)]
_Paths = Annotated[list[_Text], Field(min_length=1, max_length=10)]


class StripeAccount(Declared):
    """One Stripe account's events."""

    psp: _Text | None = None
    """The account's name in events; none: `RECONCILER_PSP__ACCOUNT`."""
    payment_id_paths: _Paths = Field(default_factory=lambda: ["metadata.payment_id"])
    """Where in the object the payment id is looked for, in order."""
    livemode: bool | None = None
    """Only events of this mode; none: of both."""


class AdyenAccount(Declared):
    """One Adyen account's notifications."""

    automatic_capture: bool
    """Whether the account captures with the authorisation. Taken for true where it is not, money
    would be called captured that is not: so it has no default."""
    psp: _Text | None = None
    """The account's name in events; none: its `merchantAccountCode`."""
    payment_id_paths: _Paths = Field(default_factory=lambda: ["merchantReference"])
    """Where in the item the payment id is looked for, in order."""
    live: bool | None = None
    """Only notifications of this environment; none: of both."""


def sources_of(settings: Settings) -> dict[str, Source]:
    """Topic -> how it is read, for topics that are not of the own contract.

    Raises ConfigurationError for a declaration that cannot be read or cannot work.
    """
    kafka = settings.kafka
    topics = (
        (kafka.erp_topic, kafka.erp_decoder, kafka.erp_decoder_file, "kafka.erp_decoder_file"),
        (kafka.psp_topic, kafka.psp_decoder, kafka.psp_decoder_file, "kafka.psp_decoder_file"),
    )
    return {
        topic: _source(decoder, file, setting, settings)
        for topic, decoder, file, setting in topics
        if decoder != "cloudevents"
    }


def _source(decoder: str, file: str | None, setting: str, settings: Settings) -> Source:
    document = {} if file is None else _document(file, setting)
    try:
        return _BUILDERS[decoder](document, psp_exponents(settings.psp), settings.psp.account)
    except BadDeclaration as bad:
        raise _problem(setting, f"{file}, where {bad}", bad.remedy) from bad


def _debezium(document: Mapping[str, Any], exponents: Exponents, _account: str) -> Source:
    return Source(Debezium.of(document, exponents=exponents))


def _mapping(document: Mapping[str, Any], exponents: Exponents, _account: str) -> Source:
    return Source(Mapped.of(document, exponents=exponents))


def _stripe(document: Mapping[str, Any], exponents: Exponents, account: str) -> Source:
    own = declared(StripeAccount, document)
    decoder = Stripe(
        psp=own.psp or account,
        payment_id_paths=tuple(own.payment_id_paths),
        livemode=own.livemode,
        exponents=exponents,
    )
    return Source(decoder)


def _adyen(document: Mapping[str, Any], exponents: Exponents, _account: str) -> Source:
    own = declared(AdyenAccount, document)
    decoder = Adyen(
        psp=own.psp,
        payment_id_paths=tuple(own.payment_id_paths),
        live=own.live,
        exponents=exponents,
    )
    return Source(decoder, automatic_capture=own.automatic_capture)


_BUILDERS: Final[Mapping[str, Callable[[Mapping[str, Any], Exponents, str], Source]]] = {
    "debezium": _debezium,
    "mapping": _mapping,
    "stripe": _stripe,
    "adyen": _adyen,
}


def _document(file: str, setting: str) -> dict[str, Any]:
    try:
        document = document_of(Path(file).read_bytes())
    except OSError as error:
        remedy = f"mount it readable for the user this runs as ({error.strerror})"
        raise _problem(setting, file, remedy) from error
    except Refused as refused:
        remedy = "write one JSON object, each name once"
        raise _problem(setting, f"{file} ({refused.detail})", remedy) from refused
    if document is None:
        raise _problem(setting, f"{file}, which says null", "write one JSON object")
    return document


def _problem(setting: str, value: str, remedy: str) -> ConfigurationError:
    allowed = "a file that holds the decoder's declaration"
    return ConfigurationError(Problem(variable(setting), value, allowed, remedy))
