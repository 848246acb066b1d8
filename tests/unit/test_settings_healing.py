"""Settings that are JSON objects, and what the parts are built with from them."""

import pytest

from service.assembly import ingest_options, rules_of
from service.connections import psp_account, psp_exponents
from service.errors import ConfigurationError
from service.settings_loading import load

PLANS = "RECONCILER_RECONCILE__POLL_PLANS"
EXPONENTS = "RECONCILER_PSP__EXPONENTS"
ADAPTER = "RECONCILER_PSP__ADAPTER"
STRIPE = {ADAPTER: "stripe", "RECONCILER_PSP__TOKEN_FILE": "/run/secrets/stripe"}
SERVICE = {
    "RECONCILER_PSP__BASE_URL": "https://psp.example",
    "RECONCILER_KAFKA__BOOTSTRAP_SERVERS": "kafka:9092",
}


def test_without_them_there_are_no_exceptions() -> None:
    settings = load({})
    assert settings.psp.adapter == "generic"
    assert rules_of(settings).poll_plans == {}
    assert psp_exponents(settings.psp) == {}


def test_poll_plans_reach_the_rules() -> None:
    settings = load({PLANS: '{"acme-eu": [60, 300], "acme-eu/sepa_debit": [86400]}'})
    rules = rules_of(settings)
    assert rules.poll_plan("acme-eu", "card") == (60, 300)
    assert rules.poll_plan("acme-eu", "sepa_debit") == (86_400,)


def test_exponents_reach_events_and_answers_alike() -> None:
    settings = load(SERVICE | {EXPONENTS: '{"acme-eu": {"ISK": 2}}'})
    assert ingest_options(settings).exponents == {"acme-eu": {"ISK": 2}}
    assert psp_account(settings).exponents == {"acme-eu": {"ISK": 2}}


def test_stripes_own_exponents_hold_for_its_account_and_give_way_to_what_is_set() -> None:
    given = {EXPONENTS: '{"shop": {"UGX": 0}, "other": {"JPY": 2}}'}
    settings = load(SERVICE | STRIPE | given | {"RECONCILER_PSP__ACCOUNT": "shop"})
    account = psp_account(settings)
    assert (account.adapter, account.name) == ("stripe", "shop")
    assert account.exponents == {"shop": {"ISK": 2, "UGX": 0, "MGA": 0}, "other": {"JPY": 2}}
    assert ingest_options(settings).exponents == account.exponents


def test_rate_limit_bounds_the_burst_too() -> None:
    account = psp_account(load(SERVICE | {"RECONCILER_PSP__RATE_PER_SECOND": "50"}))
    assert (account.rate_per_second, account.burst) == (50, 50)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        (PLANS, "60,300", "a JSON object, each name once"),
        (PLANS, "[60]", "a JSON object, each name once"),
        (PLANS, '{"a": [60], "a": [300]}', "a JSON object, each name once"),
        (PLANS, '{"a":' * 100_000, "a JSON object, each name once"),
        (PLANS, '{"a": []}', "at least 1 item"),
        (PLANS, '{"a": [0]}', "greater than or equal to 1"),
        (PLANS, '{"a": "60"}', "a valid tuple"),
        (PLANS, '{"": [60]}', "at least 1 character"),
        (EXPONENTS, '{"a": {"isk": 2}}', "match pattern"),
        (EXPONENTS, '{"a": {"ISK": 19}}', "less than or equal to 18"),
        (EXPONENTS, '{"a": {"ISK": true}}', "a valid integer"),
        (EXPONENTS, '{"a": {"ISK": "2"}}', "a valid integer"),
        (EXPONENTS, '{"a": {"ISK": 2, "ISK": 0}}', "a JSON object, each name once"),
        (EXPONENTS, '{"a": 2}', "a valid"),
        (ADAPTER, "adyen", "'generic' or 'stripe'"),
    ],
)
def test_bad_value_is_named_with_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load({name: value})
    [line] = str(raised.value).splitlines()
    assert line.startswith(f"{name} is ")
    assert allowed in line


def test_stripe_without_its_key_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigurationError, match=f"{ADAPTER} is stripe.*secret key"):
        load({ADAPTER: "stripe"})
    assert load(STRIPE).psp.adapter == "stripe"


def test_objects_are_shown_to_people() -> None:
    shown = load({EXPONENTS: '{"acme-eu": {"ISK": 2}}'}).masked()
    assert "'ISK': 2" in shown[EXPONENTS]
    assert shown[PLANS].endswith("(default)")
