"""The SQL of this package: one statement a file, read once."""

from functools import cache
from importlib.resources import files


@cache
def sql(name: str) -> str:
    """The text of `sql/<name>.sql`. Raises FileNotFoundError for a name that has no file."""
    return files("service.store").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def affected(tag: str) -> int:
    """How many rows a command tag such as "UPDATE 3" speaks of."""
    return int(tag.rpartition(" ")[2])
