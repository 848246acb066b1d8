"""Settings: read once at start-up, checked together, frozen, passed on as values.

Each setting is an environment variable RECONCILER_GROUP__NAME or, for secrets, a file group__name
in a mounted directory. Nothing is read at import; only app and cli call `load`.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from service.errors import ConfigurationError, Problem
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
from service.settings_rules import RULES, Rule
from service.settings_sources import from_environment, from_secrets

_SHOWN_CHARACTERS_MAX = 120
# What pydantic puts around the part of its text that an operator needs.
_LIBRARY_WORDS = re.compile(
    r"^(Value error, |(Input|String|Tuple) should (be |have )?)|, unable to .*$"
)

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
    """All settings of one process. Only `load` fills it from outside and checks it as a whole."""

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
            missing(name, _REQUIRED_ALLOWED[name]) for name in names if _value(self, name) is None
        ]
        if problems:
            raise ConfigurationError(*problems)

    def masked(self) -> dict[str, str]:
        """Variable name → effective value, for people: secrets masked, defaults marked."""
        shown = {}
        for name in _names():
            group, field = name.split(".")
            given = field in getattr(self, group).model_fields_set
            shown[variable(name)] = _shown(_value(self, name)) + ("" if given else " (default)")
        return shown


class _Named(EnvSettingsSource):
    """The library's reader of variables, over the values that `load` has gathered."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(Settings)
        self.env_vars = {name.lower(): value for name, value in values.items()}


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read and check all settings; `environ` is the process's own environment by default.

    Raises:
        ConfigurationError: every violation at once, a line each, secrets masked.
    """
    environ = os.environ if environ is None else environ
    known = [variable(name) for name in _names()]
    variables, unknown = from_environment(environ, known)
    secrets, unreadable = from_secrets(environ, known)
    settings, invalid = _parse(secrets | variables)
    broken = [
        _broken(rule, settings)
        for rule in RULES
        if invalid.keys().isdisjoint(rule.names) and not rule.holds(settings)
    ]
    problems = [*unknown, *unreadable, *invalid.values(), *broken]
    if problems:
        raise ConfigurationError(*problems)
    return settings


def _parse(values: dict[str, str]) -> tuple[Settings, dict[str, Problem]]:
    """Parse what can be parsed; what cannot is a problem, and its default stands in."""
    try:
        return Settings(**_Named(values)()), {}
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
    problems: dict[str, Problem] = {}
    for detail in details:
        name = f"{detail['loc'][0]}.{detail['loc'][1]}"
        problems.setdefault(name, _invalid(name, detail, values))
    good = {
        name: value
        for name, value in values.items()
        if name not in {problem.setting for problem in problems.values()}
    }
    return Settings(**_Named(good)()), problems


def _invalid(name: str, detail: ErrorDetails, values: Mapping[str, str]) -> Problem:
    given = values[variable(name)]
    shown = _shown_secret(given) if _is_secret(name) else repr(_shown(given))
    default = _shown(_value(Settings(), name))
    allowed = _LIBRARY_WORDS.sub("", detail["msg"])
    return Problem(variable(name), shown, allowed, f"correct it, or unset it (default: {default})")


def _broken(rule: Rule, settings: Settings) -> Problem:
    first, *others = rule.names
    given = _shown(_value(settings, first))
    beside = ", ".join(f"{variable(name)} is {_shown(_value(settings, name))}" for name in others)
    return Problem(
        variable(first),
        f"{given} while {beside}" if beside else given,
        rule.allowed,
        rule.remedy,
    )


def _names() -> Iterator[str]:
    for group, info in Settings.model_fields.items():
        model: Any = info.annotation
        for field in model.model_fields:
            yield f"{group}.{field}"


def _is_secret(name: str) -> bool:
    group, field = name.split(".")
    model: Any = Settings.model_fields[group].annotation
    return "SecretStr" in str(model.model_fields[field].annotation)


def _value(settings: Settings, name: str) -> object:
    group, field = name.split(".")
    return getattr(getattr(settings, group), field)


def _shown(value: object) -> str:
    """Any setting as a person may read it."""
    match value:
        case None:
            return "not set"
        case SecretStr():
            return _shown_secret(value.get_secret_value())
        case float():
            return f"{value:.10g}"
        case tuple():
            return ",".join(str(step) for step in value)
        case _:
            return mask_text(str(value))[:_SHOWN_CHARACTERS_MAX]


def _shown_secret(text: str) -> str:
    """Nothing of a secret but, of a URL, what is not its password."""
    scheme, is_url, rest = text.partition("://")
    if not is_url:
        return MASK
    user, has_user, place = rest.rpartition("@")
    shown = mask_url_password(place)[:_SHOWN_CHARACTERS_MAX]
    return (
        f"{scheme}://{user.partition(':')[0]}:{MASK}@{shown}" if has_user else f"{scheme}://{shown}"
    )
