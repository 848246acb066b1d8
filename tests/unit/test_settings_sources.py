import os
from pathlib import Path

import pytest

from service.errors import ConfigurationError
from service.settings_loading import load


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as raised:
        load(environ)
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("RECONCILER_DATABASE_URL", "RECONCILER_DATABASE__URL"),
        ("RECONCILER_LEASE__TTL", "RECONCILER_LEASE__TTL_SECONDS"),
        ("RECONCILER_KAFKA__GROUPID", "RECONCILER_KAFKA__GROUP_ID"),
        ("reconciler_watcher__intervall_seconds", "RECONCILER_WATCHER__INTERVAL_SECONDS"),
        ("RECONCILER_WATCHER", "RECONCILER_WATCHER__INTERVAL_SECONDS"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(name: str, nearest: str) -> None:
    text = refusal({name: "hunter2"})

    assert text.startswith(f"{name} is set, but unknown")
    assert f"did you mean {nearest}?" in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RECONCILER_PORT", "tcp://10.0.0.7:8081"),
        ("RECONCILER_DNS_PORT", "udp://10.0.0.7:53"),
        ("RECONCILER_SERVICE_HOST", "10.0.0.7"),
        ("RECONCILER_SERVICE_PORT", "8081"),
        ("RECONCILER_SERVICE_PORT_HEALTH", "8081"),
        ("RECONCILER_KAFKA_SERVICE_PORT_HTTP", "80"),
        ("RECONCILER_PORT_8081_TCP", "tcp://10.0.0.7:8081"),
        ("RECONCILER_PORT_8081_TCP_ADDR", "10.0.0.7"),
        ("RECONCILER_PORT_8081_TCP_PORT", "8081"),
        ("RECONCILER_PORT_8081_TCP_PROTO", "tcp"),
        ("RECONCILER_PORT_53_UDP_PROTO", "udp"),
    ],
)
def test_links_that_kubernetes_injects_are_no_settings(name: str, value: str) -> None:
    load({name: value})


@pytest.mark.parametrize(
    "name", ["RECONCILER_PORT", "RECONCILER_PORT_X_TCP", "RECONCILER_SERVICE_HOSTS"]
)
def test_what_only_resembles_a_service_link_is_refused(name: str) -> None:
    assert "unknown" in refusal({name: "8081"})


def test_names_of_other_programs_are_left_alone() -> None:
    load({"PATH": "/bin", "RECONCILERX": "1", "MY_RECONCILER_LEASE": "1"})


def mounted(directory: Path, **files: str) -> dict[str, str]:
    """A secret as the kubelet mounts it: links to a hidden, dated directory."""
    held = directory / "..2026_01_01"
    held.mkdir()
    (directory / ".database__url.swp").write_text("an editor's")
    (directory / "..data").symlink_to(held.name)
    for name, content in files.items():
        (held / name).write_text(content)
        (directory / name).symlink_to(Path("..data") / name)
    return {"RECONCILER_SECRETS_DIR": str(directory)}


def test_secrets_come_from_a_mounted_directory(tmp_path: Path) -> None:
    environ = mounted(
        tmp_path,
        database__url="postgresql://app:pw@db/payments\n",
        not_a_setting="a token, or a certificate",
    )
    settings = load(environ)

    assert settings.database.required_url() == "postgresql://app:pw@db/payments"


def test_a_variable_wins_over_a_mounted_file(tmp_path: Path) -> None:
    environ = mounted(tmp_path, database__url="postgresql://file/x")
    settings = load(environ | {"RECONCILER_DATABASE__URL": "postgresql://variable/x"})

    assert settings.database.required_url() == "postgresql://variable/x"


def test_a_misspelt_secret_file_is_refused(tmp_path: Path) -> None:
    text = refusal(mounted(tmp_path, database__ulr="hunter2"))

    assert text.startswith("secret file database__ulr is set, but unknown")
    assert "RECONCILER_DATABASE__URL" in text
    assert "hunter2" not in text


def test_a_secret_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "database__url").write_bytes(b"\xff\xfe")
    (tmp_path / "kafka__sasl_password").write_bytes(b"x" * 70_000)
    text = refusal({"RECONCILER_SECRETS_DIR": str(tmp_path)})

    assert "RECONCILER_DATABASE__URL is in the secret file database__url" in text
    assert "RECONCILER_KAFKA__SASL_PASSWORD is in the secret file" in text


def test_a_secrets_directory_that_was_asked_for_must_exist(tmp_path: Path) -> None:
    missing = str(tmp_path / "absent")

    assert f"RECONCILER_SECRETS_DIR is {missing}" in refusal({"RECONCILER_SECRETS_DIR": missing})


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every directory")
def test_a_secrets_directory_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0)
    assert "Permission denied" in refusal({"RECONCILER_SECRETS_DIR": str(tmp_path)})
