"""Settings: read once at start-up, checked together, frozen, passed on as values.

Each setting is an environment variable RECONCILER_GROUP__NAME or, for secrets, a file group__name
in a mounted directory. Nothing is read at import; `settings_loading.load` fills it, called by the
command line alone.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, SecretStr
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from service.errors import ConfigurationError
from service.observe.redaction import MASK, mask_text, mask_url_password
from service.settings_database import URL_ALLOWED, DatabaseSettings
from service.settings_fields import DELIMITER, PREFIX, Group, Port, missing, variable
from service.settings_healing import (
    BASE_URL_ALLOWED,
    LeaseSettings,
    PspSettings,
    ReconcileSettings,
    WatcherSettings,
)
from service.settings_kafka import SERVERS_ALLOWED, KafkaSettings

_SHOWN_CHARACTERS_MAX = 120

Required = Literal["database.url", "kafka.bootstrap_servers", "psp.base_url"]
_REQUIRED_ALLOWED: dict[Required, str] = {
    "database.url": URL_ALLOWED,
    "kafka.bootstrap_servers": SERVERS_ALLOWED,
    "psp.base_url": BASE_URL_ALLOWED,
}


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


class HealthSettings(Group):
    """Where probes and metrics are answered."""

    host: str = "0.0.0.0"  # noqa: S104 - a probe comes from outside the container
    port: Port = 8081


class ApiSettings(Group):
    """Where operators are answered."""

    port: Port = 8080


class LogSettings(Group):
    """How much is logged, and in which form; auto is console on a terminal, JSON elsewhere."""

    level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(_upper)
    ] = "INFO"
    format: Literal["auto", "json", "console"] = "auto"


class Settings(BaseSettings):
    """All settings of one process. Only `settings_loading.load` fills and checks it."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=DELIMITER, frozen=True, extra="forbid"
    )

    database: DatabaseSettings = DatabaseSettings()
    kafka: KafkaSettings = KafkaSettings()
    lease: LeaseSettings = LeaseSettings()
    watcher: WatcherSettings = WatcherSettings()
    reconcile: ReconcileSettings = ReconcileSettings()
    psp: PspSettings = PspSettings()
    health: HealthSettings = HealthSettings()
    api: ApiSettings = ApiSettings()
    log: LogSettings = LogSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Keep construction pure: the environment is read by `load` alone."""
        return (init_settings,)

    def require(self, *names: Required) -> None:
        """Raise one ConfigurationError that names every setting of `names` that is not set."""
        problems = [
            missing(name, _REQUIRED_ALLOWED[name]) for name in names if value_of(self, name) is None
        ]
        if problems:
            raise ConfigurationError(*problems)

    def masked(self) -> dict[str, str]:
        """Variable name → effective value, for people: secrets masked, defaults marked."""
        masked = {}
        for name in names_of_all():
            group, field = name.split(".")
            given = field in getattr(self, group).model_fields_set
            masked[variable(name)] = shown(value_of(self, name)) + ("" if given else " (default)")
        return masked


def names_of_all() -> Iterator[str]:
    """`group.field` of every setting."""
    for group, info in Settings.model_fields.items():
        model: Any = info.annotation
        for field in model.model_fields:
            yield f"{group}.{field}"


def is_secret(name: str) -> bool:
    """Whether a setting may be shown to nobody."""
    group, field = name.split(".")
    model: Any = Settings.model_fields[group].annotation
    return "SecretStr" in str(model.model_fields[field].annotation)


def value_of(settings: Settings, name: str) -> object:
    """The value of a setting named `group.field`."""
    group, field = name.split(".")
    return getattr(getattr(settings, group), field)


def shown(value: object) -> str:
    """Any setting as a person may read it."""
    match value:
        case None:
            return "not set"
        case SecretStr():
            return shown_secret(value.get_secret_value())
        case float():
            return f"{value:.10g}"
        case tuple():
            return ",".join(str(step) for step in value)
        case _:
            return mask_text(str(value))[:_SHOWN_CHARACTERS_MAX]


def shown_secret(text: str) -> str:
    """Nothing of a secret but, of a URL, what is not its password."""
    scheme, is_url, rest = text.partition("://")
    if not is_url:
        return MASK
    user, has_user, place = rest.rpartition("@")
    rest = mask_url_password(place)[:_SHOWN_CHARACTERS_MAX]
    return (
        f"{scheme}://{user.partition(':')[0]}:{MASK}@{rest}" if has_user else f"{scheme}://{rest}"
    )
