"""Reading the settings: environment and secret files in, every violation out in one error."""

import os
import re
from collections.abc import Mapping

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource

from service.errors import ConfigurationError, Problem
from service.settings import Settings, is_secret, names_of_all, shown, shown_secret, value_of
from service.settings_fields import variable
from service.settings_rules import RULES, Rule
from service.settings_sources import from_environment, from_secrets

# What pydantic puts around the part of its text that an operator needs.
_LIBRARY_WORDS = re.compile(
    r"^(Value error, |(Input|String|Tuple) should (be |have )?)|, unable to .*$"
)


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
    known = [variable(name) for name in names_of_all()]
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
    told = shown_secret(given) if is_secret(name) else repr(shown(given))
    default = shown(value_of(Settings(), name))
    allowed = _LIBRARY_WORDS.sub("", detail["msg"])
    return Problem(variable(name), told, allowed, f"correct it, or unset it (default: {default})")


def _broken(rule: Rule, settings: Settings) -> Problem:
    first, *others = rule.names
    given = shown(value_of(settings, first))
    beside = ", ".join(f"{variable(name)} is {shown(value_of(settings, name))}" for name in others)
    return Problem(
        variable(first),
        f"{given} while {beside}" if beside else given,
        rule.allowed,
        rule.remedy,
    )
