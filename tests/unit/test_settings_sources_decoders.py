"""Decoders by settings: what each topic is read with, and what is said of a bad declaration."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.sources.adyen import Adyen
from schemas.sources.debezium import Debezium
from schemas.sources.mapping import Mapped
from schemas.sources.stripe import Stripe
from service.assembly import ingest_options
from service.decoders import sources_of
from service.errors import ConfigurationError
from service.settings_loading import load
from tests.contract.sources.debezium import TABLE
from tests.contract.sources.declarations import MOLLIE

PREFIX = "RECONCILER_KAFKA__"
ERP, ERP_FILE = f"{PREFIX}ERP_DECODER", f"{PREFIX}ERP_DECODER_FILE"
PSP, PSP_FILE = f"{PREFIX}PSP_DECODER", f"{PREFIX}PSP_DECODER_FILE"


def _file(directory: Path, document: Any, name: str = "decoder.json") -> str:
    file = directory / name
    text = document if isinstance(document, str) else json.dumps(document)
    file.write_text(text, encoding="utf-8")
    return str(file)


def _refusal(settings: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as raised:
        sources_of(load(settings))
    assert raised.value.exit_code == 2
    return str(raised.value)


def test_without_decoders_every_topic_is_of_the_own_contract() -> None:
    assert sources_of(load({})) == {}


def test_each_topic_has_its_decoder(tmp_path: Path) -> None:
    erp = _file(tmp_path, TABLE, "erp.json")
    psp = _file(tmp_path, MOLLIE, "psp.json")
    given = {ERP: "debezium", ERP_FILE: erp, PSP: "mapping", PSP_FILE: psp}
    settings = load({**given, f"{PREFIX}PSP_TOPIC": "mollie"})
    sources = ingest_options(settings).sources
    assert sources.keys() == {"erp.payments", "mollie"}
    assert isinstance(sources["erp.payments"].decoder, Debezium)
    assert isinstance(sources["mollie"].decoder, Mapped)


def test_stripe_needs_no_file_and_takes_the_account_that_is_asked() -> None:
    settings = load({PSP: "stripe", "RECONCILER_PSP__ACCOUNT": "shop"})
    decoder = sources_of(settings)["psp.payments"].decoder
    assert decoder == Stripe("shop")


def test_options_of_an_account_are_read_from_its_file(tmp_path: Path) -> None:
    stripe = {"psp": "eu", "payment_id_paths": ["metadata.id", "description"], "livemode": True}
    settings = load({PSP: "stripe", PSP_FILE: _file(tmp_path, stripe)})
    expected = Stripe("eu", payment_id_paths=("metadata.id", "description"), livemode=True)
    assert sources_of(settings)["psp.payments"].decoder == expected

    settings = load({PSP: "adyen", PSP_FILE: _file(tmp_path, {"automatic_capture": True})})
    source = sources_of(settings)["psp.payments"]
    assert (source.decoder, source.automatic_capture) == (Adyen(), True)


@pytest.mark.parametrize(
    ("decoder", "document", "said"),
    [
        ("adyen", {}, ["automatic_capture is absent", "required; declare it"]),
        ("adyen", {"automatic_capture": 1}, ["automatic_capture is 1"]),
        ("stripe", {"live": True}, ["live is True", "no such name"]),
        ("debezium", {**TABLE, "epoch": -1}, ["epoch is -1", "greater than or equal to 0"]),
        ("mapping", {**MOLLIE, "mappings": []}, ["mappings", "at least 1"]),
        ("mapping", "[1]", ["send one JSON object"]),
        ("mapping", '{"a": 1, "a": 2}', ["each name once"]),
        ("mapping", "null", ["null"]),
    ],
)
def test_bad_declaration_names_setting_file_path_value_and_remedy(
    tmp_path: Path, decoder: str, document: Any, said: list[str]
) -> None:
    file = _file(tmp_path, document)
    refusal = _refusal({PSP: decoder, PSP_FILE: file})
    assert refusal.startswith(PSP_FILE)
    assert "remedy: " in refusal
    for part in (file, *said):
        assert part in refusal


def test_file_that_is_not_there_is_named() -> None:
    refusal = _refusal({PSP: "stripe", PSP_FILE: "/nowhere/stripe.json"})
    assert "/nowhere/stripe.json" in refusal
    assert "No such file" in refusal


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({ERP: "debezium"}, "set the decoder's file"),
        ({PSP: "adyen"}, "set the decoder's file"),
        ({PSP_FILE: "/x.json"}, "choose the decoder, or unset its file"),
        ({ERP: "stripe"}, "cloudevents"),
        ({PSP: "stripe", f"{PREFIX}PSP_TOPIC": "erp.payments"}, "topics of their own"),
    ],
)
def test_settings_that_cannot_work_together_are_told_at_once(
    settings: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load(settings)
    assert said in str(raised.value)
