"""What the groups of settings are made of: frozen models, bounded numbers, spelled-out texts."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from service.errors import Problem

PREFIX = "RECONCILER_"
DELIMITER = "__"

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
LongSeconds = Annotated[float, Field(gt=0, le=30 * 86_400, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=0, le=65_535)]
Name = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[A-Za-z0-9._-]+$")]
Path = Annotated[str, Field(min_length=1, max_length=4096)]


class Group(BaseModel):
    """One group of settings; never changes once read."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def variable(name: str) -> str:
    """Environment variable of a setting: `lease.ttl_seconds` → RECONCILER_LEASE__TTL_SECONDS."""
    return PREFIX + name.replace(".", DELIMITER).upper()


def missing(name: str, allowed: str) -> Problem:
    """Tell that a command needs a setting that has no default."""
    file = name.replace(".", DELIMITER)
    return Problem(
        variable(name),
        "not set",
        allowed,
        f"set it, or mount it as a file {file} in the secrets directory",
    )
