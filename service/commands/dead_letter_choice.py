"""Which dead letters a command is about: ids and filters as they are typed."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from service.errors import ConfigurationError
from service.store import book
from service.store.dead_letters import Wanted

_AGO = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TIMES = "an RFC 3339 time with offset, or a time ago such as 90s, 30m, 2h, 7d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was asked for; all of it must hold. `status` None: whatever it is."""

    ids: tuple[int, ...] = ()
    status: str | None = "parked"
    reason: str | None = None
    topic: str | None = None
    payment: str | None = None
    since: str | None = None
    until: str | None = None
    limit: int | None = None
    everything: bool = False

    def require(self) -> None:
        """Raises ConfigurationError where nothing says which dead letters, or two things do."""
        filters = (self.reason, self.topic, self.payment, self.since, self.until)
        narrowed = bool(self.ids) or any(each is not None for each in filters)
        if not narrowed and not self.everything:
            raise ConfigurationError(
                "which dead letters? Give their ids, a filter (--reason, --topic, --payment,"
                " --since, --until), or --all"
            )
        if self.ids and self.everything:
            raise ConfigurationError("ids and --all contradict each other: give one of the two")

    async def wanted(self, connection: Any) -> Wanted:
        """The selection, with times ago counted back from the database's clock.

        Ids are found whatever their status, so that the one they have can be told.
        Raises ConfigurationError for times that are none.
        """
        now = await book.database_now(connection)
        since = None if self.since is None else moment(self.since, option="--since", now=now)
        until = None if self.until is None else moment(self.until, option="--until", now=now)
        if since is not None and until is not None and since >= until:
            raise ConfigurationError("--since is not before --until: no time lies between them")
        return Wanted(
            ids=self.ids or None,
            status=None if self.ids else self.status,
            reason=self.reason,
            topic=self.topic,
            payment_id=self.payment,
            since=since,
            until=until,
        )


def moment(text: str, *, option: str, now: datetime) -> datetime:
    """The time that `text` says, in UTC. Raises ConfigurationError with what would be one."""
    ago = _AGO.fullmatch(text)
    try:
        if ago:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        said = datetime.fromisoformat(text)
        if said.tzinfo is not None:
            return said.astimezone(UTC)
    except (ValueError, OverflowError):
        said = None
    remedy = "say its offset: Z is UTC" if said is not None else "such as 2026-11-30T14:00:00Z"
    raise ConfigurationError(f"{option} is {text!r}; allowed: {_TIMES}; remedy: {remedy}")
