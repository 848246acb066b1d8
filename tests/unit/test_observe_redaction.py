import pytest
from pydantic import SecretStr

from service.observe.redaction import mask_text, redact

VISA = "4111111111111111"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"card {VISA} declined", "card **** declined"),
        ("card 4111 1111 1111 1111.", "card ****."),
        ("card 4111-1111-1111-1111", "card ****"),
        (f"order 12 {VISA} 4", "order 12 **** 4"),
        (f"{VISA} 378282246310005", "**** ****"),
        (f"x{VISA}y", "x****y"),
        ("6799990100000000019", "****"),
        ("4111111111111112", "4111111111111112"),
        ("2026-01-01T12:00:00.123456Z", "2026-01-01T12:00:00.123456Z"),
    ],
)
def test_card_numbers_are_masked_in_any_text(text: str, masked: str) -> None:
    """Reported as statping 229."""
    assert mask_text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://app:hunter2@db/x",
        "cannot reach postgresql://app:hun@ter/hunter2@db:5432/x today",
        "redis://:hunter2@cache",
        "postgresql://db/x?user=app&password=hunter2&sslmode=require",
        "host=db password=hunter2 dbname=x",
        "Authorization: Bearer hunter2.abc",
    ],
)
def test_passwords_are_masked_in_any_text(text: str) -> None:
    """Reported as nutshell 523."""
    masked = mask_text(text)

    assert "hunter2" not in masked
    assert "****" in masked


@pytest.mark.parametrize(
    "key",
    ["password", "sasl_password", "Token", "secrets", "database_url", "dsn", "X-Api-Key", "cookie"],
)
def test_values_under_the_name_of_a_secret_are_masked(key: str) -> None:
    assert redact(key, "anything") == "****"
    assert redact("outer", {key: {"deeper": "anything"}}) == {key: "****"}


@pytest.mark.parametrize("key", ["password_file", "payment_id", "tokens_left", "currency"])
def test_values_under_other_names_are_kept(key: str) -> None:
    assert redact(key, "anything") == "anything"


def test_every_kind_of_value_is_looked_at() -> None:
    number = int(VISA)
    value = {"list": [VISA], "bytes": VISA.encode(), "int": number, "error": ValueError(VISA)}

    assert VISA not in repr(redact("event", value))
    assert redact("secret", SecretStr("hunter2")) == "****"
    assert redact("amount", 1.5) == 1.5
    assert redact("ok", True) is True


def test_a_version_is_no_card_number() -> None:
    assert redact("stored_version", int(VISA)) == int(VISA)
    assert redact("stored_version", VISA) == "****"


def test_deep_values_end() -> None:
    loop: list[object] = [VISA]
    loop.append(loop)

    assert VISA not in repr(redact("event", loop))
