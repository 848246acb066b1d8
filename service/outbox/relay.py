"""The relay: outbox rows go to Kafka, in order a payment, at least once.

One process relays at a time, by a lease in the database whose epoch fences the marks. One that was
paused past its lease may send again what its successor sent: consumers compare `entityversion`.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from service.lifecycle import wait_for_stop
from service.observe.events import Event
from service.outbox.letters import Message, dead_letter_id, message_of
from service.outbox.publisher import Publisher, PublishFailed
from service.store import controls, dead_letter_copies, outbox
from service.store.faults import Reaction, reaction
from service.store.outbox import Outgoing
from service.store.transactions import transaction

_PAUSE_FIRST_SECONDS = 0.5
_PAUSE_MAX_SECONDS = 10.0

_INCURABLE = frozenset({Reaction.STOP, Reaction.BISECT})

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayTerms:
    """For whom, how much and how long. `connection` holds the Kafka client's own arguments."""

    owner: str
    connection: Mapping[str, Any] = field(repr=False)
    ttl_seconds: float = 30.0
    poll_seconds: float = 0.5
    batch_max: int = 500
    send_seconds: float = 10.0
    statement_seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.ttl_seconds / 2 < self.send_seconds + self.statement_seconds:
            raise ValueError("half of the relay's lease must outlast one batch")


@dataclass(slots=True)
class RelayActivity:
    """What the relay is doing, for health and metrics."""

    leading: bool = False
    published: int = 0
    failures: int = 0


class Relay:
    """Publishes while it has the lease, and waits for the lease otherwise."""

    def __init__(
        self,
        pool: Any,
        *,
        terms: RelayTerms,
        activity: RelayActivity,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._terms = terms
        self._activity = activity
        self._clock = clock
        self._publisher = Publisher(terms.connection, send_seconds=terms.send_seconds)
        self._epoch: int | None = None
        self._trusted_until = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Relay until `stop`; survives outages of the broker and of the database."""
        failures = 0
        try:
            while not stop.is_set():
                try:
                    pause = 0.0 if await self._round() else self._terms.poll_seconds
                    failures = 0
                except Exception as error:  # noqa: BLE001 - `_note` raises what no waiting cures
                    failures += 1
                    pause = self._note(error, failures)
                if pause:
                    await wait_for_stop(stop, pause)
        finally:
            await self._publisher.close()
            await self._resign()

    async def _round(self) -> bool:
        """Publish one batch if this process is the relay; tells whether more may wait."""
        if not await self._lead():
            return False
        async with self._borrowed() as connection:
            waiting = await outbox.unpublished(connection, limit=self._terms.batch_max)
            letters = [each for each in map(dead_letter_id, waiting) if each is not None]
            copies = await dead_letter_copies.read(connection, letters) if letters else {}
        if not waiting:
            return False
        messages = [message_of(each, copies) for each in waiting]
        await self._publish(waiting, [each for each in messages if each is not None])
        return len(waiting) == self._terms.batch_max

    async def _publish(self, waiting: Sequence[Outgoing], messages: Sequence[Message]) -> None:
        """Send, then mark what was acknowledged; rows that stand for nothing any more count too."""
        sent = await self._publisher.send(messages) if messages else []
        empty = {each.outbox_id for each in waiting} - {each.outbox_id for each in messages}
        async with self._borrowed() as connection:
            marked = await outbox.publish(
                connection,
                [*sent, *empty],
                relay_owner=self._terms.owner,
                relay_epoch=self._epoch or 0,
            )
        self._activity.published += marked
        _log.debug(Event.OUTBOX_PUBLISHED, events=marked)
        if not marked:
            self._depose()

    async def _lead(self) -> bool:
        """Get the lease, or renew it in time for one more batch."""
        terms, sent_at = self._terms, self._clock()
        if self._epoch is not None and sent_at < self._trusted_until - terms.ttl_seconds / 2:
            return True
        async with self._borrowed() as connection:
            if self._epoch is None:
                self._epoch = await controls.claim_relay(
                    connection, owner=terms.owner, ttl_seconds=terms.ttl_seconds
                )
            elif not await controls.renew_relay(
                connection, owner=terms.owner, epoch=self._epoch, ttl_seconds=terms.ttl_seconds
            ):
                self._depose()
        if self._epoch is None:
            return False
        self._trusted_until = sent_at + terms.ttl_seconds
        if not self._activity.leading:
            _log.info(Event.RELAY_LEADING, epoch=self._epoch)
        self._activity.leading = True
        return True

    def _depose(self) -> None:
        _log.warning(Event.RELAY_DEPOSED, epoch=self._epoch)
        self._epoch = None
        self._activity.leading = False

    def _note(self, error: Exception, failures: int) -> float:
        """Log a failed round; returns the pause after it. Raises what no waiting cures."""
        if not isinstance(error, PublishFailed) and reaction(error) in _INCURABLE:
            raise error
        self._activity.failures += 1
        _log.warning(Event.OUTBOX_PUBLISH_FAILED, error=str(error) or type(error).__name__)
        ceiling = min(_PAUSE_MAX_SECONDS, _PAUSE_FIRST_SECONDS * 2.0 ** min(failures, 8))
        return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - jitter, not a secret

    async def _resign(self) -> None:
        """Let another process begin at once; a lease that cannot be given back runs out."""
        epoch, self._epoch = self._epoch, None
        self._activity.leading = False
        if epoch is None:
            return
        try:
            async with self._borrowed() as connection:
                await controls.release_relay(connection, owner=self._terms.owner, epoch=epoch)
        except Exception as error:  # noqa: BLE001 - bounded by the lease
            _log.warning(Event.DATABASE_LOST, error=type(error).__name__)

    @asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[Any]:
        """A short transaction; one that is cut short gives its connection up at once."""
        async with (
            asyncio.timeout(self._terms.statement_seconds),
            transaction(self._pool) as connection,
        ):
            yield connection
