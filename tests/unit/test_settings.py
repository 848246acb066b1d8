import pytest
from pydantic import ValidationError

from service.errors import ConfigurationError
from service.settings import Settings
from service.settings_loading import load

NOWHERE = {"RECONCILER_DATABASE__URL": "postgresql://app:pw@db:5432/payments"}


def refusal(environ: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        load(environ)
    assert raised.value.exit_code == 2
    return str(raised.value).splitlines()


def test_defaults_work_together() -> None:
    settings = load({})

    assert settings.lease.ttl_seconds == 60
    assert settings.reconcile.poll_plan_seconds == (60, 300, 900, 3_600, 21_600, 86_400)
    assert settings.reconcile.pending_after_seconds == 300
    assert settings.database.url is None


def test_the_environment_is_read_by_load_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_LEASE__TTL_SECONDS", "90")

    assert Settings().lease.ttl_seconds == 60
    assert load().lease.ttl_seconds == 90


@pytest.mark.parametrize(("group", "field"), [(None, "lease"), ("lease", "ttl_seconds")])
def test_settings_are_frozen(group: str | None, field: str) -> None:
    settings = load({})
    with pytest.raises(ValidationError, match="frozen"):
        setattr(getattr(settings, group) if group else settings, field, 1)


def test_variables_are_read_in_any_case_and_trimmed() -> None:
    settings = load({"reconciler_lease__concurrency": " 7 ", "RECONCILER_LOG__LEVEL": "debug"})

    assert settings.lease.concurrency == 7
    assert settings.log.level == "DEBUG"


def test_an_empty_value_counts_as_not_set() -> None:
    settings = load({"RECONCILER_PSP__TOKEN_FILE": "", "RECONCILER_LEASE__TTL_SECONDS": " "})

    assert settings.psp.token_file is None
    assert settings.lease.ttl_seconds == 60


@pytest.mark.parametrize("text", ["60,120", "[60, 120]", "60 , 120"])
def test_the_poll_plan_is_a_list(text: str) -> None:
    settings = load({"RECONCILER_RECONCILE__POLL_PLAN_SECONDS": text})

    assert settings.reconcile.poll_plan_seconds == (60, 120)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("LEASE__TTL_SECONDS", "abc", "a valid number"),
        ("LEASE__TTL_SECONDS", "0", "greater than 0"),
        ("LEASE__TTL_SECONDS", "nan", "a finite number"),
        ("LEASE__TTL_SECONDS", "inf", "a finite number"),
        ("LEASE__CONCURRENCY", "1.5", "a valid integer"),
        ("LEASE__CONCURRENCY", "100000", "less than or equal to 1000"),
        ("RECONCILE__MODE", "dry-run", "'enforce' or 'shadow'"),
        ("RECONCILE__POLL_PLAN_SECONDS", "60,x", "a valid integer"),
        ("RECONCILE__POLL_PLAN_SECONDS", "[]", "a valid integer"),
        ("KAFKA__BOOTSTRAP_SERVERS", "kafka", "host:port"),
        ("KAFKA__BOOTSTRAP_SERVERS", "kafka:99999", "host:port"),
        ("KAFKA__SECURITY_PROTOCOL", "TLS", "'PLAINTEXT'"),
        ("KAFKA__ERP_TOPIC", "a b", "match pattern"),
        ("PSP__BASE_URL", "psp.example", "http://host"),
        ("PSP__BASE_URL", "https://", "http://host"),
        ("DATABASE__SSL_MODE", "on", "'verify-full'"),
        ("DATABASE__STATEMENT_CACHE", "maybe", "a valid boolean"),
        ("HEALTH__PORT", "70000", "less than or equal to 65535"),
        ("LOG__LEVEL", "loud", "'WARNING'"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(name: str, value: str, allowed: str) -> None:
    (line,) = refusal({f"RECONCILER_{name}": value})

    assert line.startswith(f"RECONCILER_{name} is {value!r}; allowed: ")
    assert allowed in line
    assert "remedy: " in line
    assert "pydantic" not in line


@pytest.mark.parametrize(
    "url",
    ["hunter2", "postgresql+asyncpg://app:hunter2@db/x", "mysql://app:hunter2@db/x"],
)
def test_a_bad_database_url_keeps_its_password(url: str) -> None:
    (line,) = refusal({"RECONCILER_DATABASE__URL": url})

    assert line.startswith("RECONCILER_DATABASE__URL is ")
    assert "postgresql://user:password@host:5432/database" in line
    assert "hunter2" not in line


def test_a_url_that_python_cannot_split_keeps_its_password() -> None:
    for name in ("DATABASE__URL", "PSP__BASE_URL"):
        (line,) = refusal({f"RECONCILER_{name}": "https://app:hunter2@ex\u2100mple/x"})
        assert "hunter2" not in line


RULES = [
    ({"LEASE__TTL_SECONDS": "44"}, "LEASE__TTL_SECONDS", "3 heartbeats"),
    ({"PSP__BUDGET_SECONDS": "60"}, "LEASE__TTL_SECONDS", "above the PSP budget"),
    ({"PSP__TIMEOUT_SECONDS": "21"}, "PSP__TIMEOUT_SECONDS", "at most the budget"),
    ({"DATABASE__POOL_MAX": "3"}, "DATABASE__POOL_MAX", "at least 4"),
    ({"DATABASE__POOL_MIN": "11"}, "DATABASE__POOL_MIN", "at most the pool's maximum"),
    (
        {
            "DATABASE__URL": "postgresql://db/x?sslmode=verify-full",
            "DATABASE__SSL_MODE": "require",
        },
        "DATABASE__SSL_MODE",
        "the URL's sslmode",
    ),
    (
        {"DATABASE__SSL_MODE": "disable", "DATABASE__SSL_CERT_FILE": "/tls/crt"},
        "DATABASE__SSL_MODE",
        "certificate files",
    ),
    ({"DATABASE__SSL_KEY_FILE": "/tls/key"}, "DATABASE__SSL_KEY_FILE", "certificate"),
    ({"KAFKA__SECURITY_PROTOCOL": "SASL_SSL"}, "KAFKA__SECURITY_PROTOCOL", "sasl_mechanism"),
    ({"KAFKA__SASL_USERNAME": "app"}, "KAFKA__SECURITY_PROTOCOL", "SASL_SSL"),
    ({"KAFKA__TLS_CA_FILE": "/tls/ca"}, "KAFKA__SECURITY_PROTOCOL", "SSL"),
    (
        {"KAFKA__SECURITY_PROTOCOL": "SSL", "KAFKA__TLS_KEY_FILE": "/tls/key"},
        "KAFKA__TLS_KEY_FILE",
        "certificate",
    ),
    ({"KAFKA__OUTCOME_TOPIC": "erp.payments"}, "KAFKA__OUTCOME_TOPIC", "apart"),
]


@pytest.mark.parametrize(("given", "named", "allowed"), RULES)
def test_settings_that_cannot_work_together_are_refused(
    given: dict[str, str], named: str, allowed: str
) -> None:
    (line,) = refusal({f"RECONCILER_{name}": value for name, value in given.items()})

    assert line.startswith(f"RECONCILER_{named} is ")
    assert allowed in line


def test_sasl_over_tls_is_accepted() -> None:
    given = {
        "KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA__SASL_MECHANISM": "SCRAM-SHA-512",
        "KAFKA__SASL_USERNAME": "app",
        "KAFKA__SASL_PASSWORD": "hunter2",
        "KAFKA__TLS_CA_FILE": "/tls/ca",
    }
    settings = load({f"RECONCILER_{name}": value for name, value in given.items()})

    assert settings.kafka.sasl_password is not None
    assert settings.kafka.sasl_password.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(settings)
    assert list(settings.masked().values()).count("****") == 1


def test_all_violations_come_out_together() -> None:
    lines = refusal(
        {
            "RECONCILER_LEASE__CONCURRENCY": "many",
            "RECONCILER_LEASE_TTL": "60",
            "RECONCILER_DATABASE__POOL_MAX": "2",
            "RECONCILER_PSP__TIMEOUT_SECONDS": "-1",
            "RECONCILER_SECRETS_DIR": "/no/such/directory",
        }
    )

    assert {line.split(" is ")[0] for line in lines} == {
        "RECONCILER_LEASE__CONCURRENCY",
        "RECONCILER_LEASE_TTL",
        "RECONCILER_DATABASE__POOL_MAX",
        "RECONCILER_PSP__TIMEOUT_SECONDS",
        "RECONCILER_SECRETS_DIR",
    }


def test_a_missing_setting_is_named_by_the_command_that_needs_it() -> None:
    settings = load(NOWHERE)

    assert settings.database.required_url() == NOWHERE["RECONCILER_DATABASE__URL"]
    settings.require("database.url")
    with pytest.raises(ConfigurationError) as raised:
        settings.require("database.url", "kafka.bootstrap_servers", "psp.base_url")
    text = str(raised.value)
    assert "RECONCILER_KAFKA__BOOTSTRAP_SERVERS is not set" in text
    assert "RECONCILER_PSP__BASE_URL is not set" in text
    assert "DATABASE" not in text
    with pytest.raises(ConfigurationError, match="RECONCILER_KAFKA__BOOTSTRAP_SERVERS"):
        settings.kafka.required_bootstrap_servers()
    with pytest.raises(ConfigurationError, match="RECONCILER_PSP__BASE_URL"):
        settings.psp.required_base_url()
    with pytest.raises(ConfigurationError, match="RECONCILER_DATABASE__URL"):
        load({}).database.required_url()


def test_masked_settings_name_every_variable_and_mark_defaults() -> None:
    shown = load(NOWHERE | {"RECONCILER_PSP__BASE_URL": "https://me:hunter2@psp/api/"}).masked()

    assert shown["RECONCILER_DATABASE__URL"] == "postgresql://app:****@db:5432/payments"
    assert shown["RECONCILER_PSP__BASE_URL"] == "https://me:****@psp/api"
    assert shown["RECONCILER_LEASE__TTL_SECONDS"] == "60 (default)"
    assert shown["RECONCILER_PSP__RATE_PER_SECOND"] == "not set (default)"
