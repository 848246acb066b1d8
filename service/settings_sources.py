"""Where settings come from: the environment, and a directory of secrets such as Kubernetes mounts.

A file `database__url` in the directory is the same as the variable RECONCILER_DATABASE__URL; the
variable wins. An empty value counts as not set, as compose files and charts leave them behind.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from service.errors import Problem
from service.settings_fields import DELIMITER, PREFIX

SECRETS_DIR = f"{PREFIX}SECRETS_DIR"
SECRETS_DIR_DEFAULT = Path("/etc/reconciler/secrets")
_FILE_BYTES_MAX = 65_536

_SERVICE_LINK_VALUE = re.compile(r"(tcp|udp)://", re.IGNORECASE)
_SERVICE_LINK_NAME = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_.*)?$|_PORT_\d+_(TCP|UDP)(_.*)?$")


def from_environment(
    environ: Mapping[str, str], known: Iterable[str]
) -> tuple[dict[str, str], list[Problem]]:
    """Pick this service's variables, names in upper case.

    Unknown names are problems, except for the links to other services that Kubernetes puts into
    every container: a Service called `reconciler` gives RECONCILER_PORT and a dozen more.
    """
    names = set(known)
    values: dict[str, str] = {}
    problems = []
    for given, value in environ.items():
        name = given.upper()
        if not name.startswith(PREFIX) or name == SECRETS_DIR:
            continue
        if name in names:
            if value.strip():
                values[name] = value.strip()
        elif not _is_service_link(name, value):
            problems.append(_unknown(given, name, names))
    return values, problems


def from_secrets(
    environ: Mapping[str, str], known: Iterable[str]
) -> tuple[dict[str, str], list[Problem]]:
    """Read the mounted files whose names are settings.

    Hidden entries are the mount's own (`..data`). A file without `__` in its name is somebody
    else's, such as a token or a certificate that a setting points to.
    """
    directory, asked_for = _secrets_dir(environ)
    names = set(known)
    values: dict[str, str] = {}
    problems = []
    try:
        files = sorted(directory.iterdir())
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not asked_for:
            return {}, []
        return {}, [_unreadable(SECRETS_DIR, str(directory), error)]
    for file in files:
        name = PREFIX + file.name.upper()
        if file.name.startswith(".") or DELIMITER not in file.name:
            continue
        if name not in names:
            problems.append(_unknown(f"secret file {file.name}", name, names))
            continue
        try:
            value = _read(file)
        except (OSError, ValueError) as error:
            problems.append(_unreadable(name, f"in the secret file {file.name}", error))
            continue
        if value:
            values[name] = value
    return values, problems


def _secrets_dir(environ: Mapping[str, str]) -> tuple[Path, bool]:
    asked_for = environ.get(SECRETS_DIR, "").strip()
    return (Path(asked_for), True) if asked_for else (SECRETS_DIR_DEFAULT, False)


def _read(file: Path) -> str:
    with file.open("rb") as opened:
        content = opened.read(_FILE_BYTES_MAX + 1)
    if len(content) > _FILE_BYTES_MAX:
        raise ValueError("too large")
    return content.decode("utf-8").strip()


def _is_service_link(name: str, value: str) -> bool:
    return bool(_SERVICE_LINK_VALUE.match(value) or _SERVICE_LINK_NAME.search(name))


def _unknown(given: str, name: str, names: set[str]) -> Problem:
    # Its value may be a secret under a misspelt name: it is not shown.
    begun_so = sorted(known for known in names if known.startswith(name))
    nearest = difflib.get_close_matches(name, begun_so or sorted(names), n=1, cutoff=0.0)[0]
    return Problem(given, "set, but unknown", "known settings", f"did you mean {nearest}?")


def _unreadable(setting: str, value: str, error: OSError | ValueError) -> Problem:
    reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text up to 64 KiB"
    return Problem(
        setting,
        value,
        "readable by this process",
        f"mount it readable for the user this runs as, or unset it ({reason})",
    )
