"""The Kafka producer of the relay: idempotent, acknowledged by all, every wait bounded."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from service.outbox.letters import Message

_STOP_SECONDS = 5.0

_build: Any = AIOKafkaProducer


class PublishFailed(Exception):  # noqa: N818 - named after what happened
    """Some messages were not acknowledged; nobody knows whether they are in the log."""


class Publisher:
    """Sends batches. `connection` holds the client's own arguments: servers, security."""

    def __init__(self, connection: Mapping[str, Any], *, send_seconds: float) -> None:
        self._connection = connection
        self._send_seconds = send_seconds
        self._producer: Any = None

    async def send(self, messages: Sequence[Message]) -> list[int]:
        """Send in order; returns the outbox ids that are acknowledged and have no unacknowledged
        predecessor of the same key. Raises PublishFailed or a KafkaError if there are none.

        After any failure the producer is given up: it would go on trying behind our back.
        """
        try:
            async with asyncio.timeout(self._send_seconds):
                waiting = [await self._begin(message) for message in messages]
                await asyncio.wait(waiting)
        except (TimeoutError, KafkaError) as error:
            await self.close()
            raise PublishFailed(type(error).__name__) from error
        except BaseException:
            await self.close()
            raise
        done = _in_order(messages, waiting)
        if len(done) < len(messages):
            await self.close()
        if not done and messages:
            raise PublishFailed("nothing was acknowledged")
        return done

    async def close(self) -> None:
        """Give the producer up, with a bounded wait for what it still holds."""
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await producer.stop()
            except (TimeoutError, KafkaError):
                return

    async def _begin(self, message: Message) -> "asyncio.Future[Any]":
        if self._producer is None:
            # Kept before it has started, so that one that cannot start is closed as well.
            self._producer = _build(
                **self._connection,
                acks="all",
                enable_idempotence=True,
                linger_ms=5,
                request_timeout_ms=round(self._send_seconds * 1000),
                max_request_size=2 * 1024 * 1024,
            )
            await self._producer.start()
        sent: asyncio.Future[Any] = await self._producer.send(
            message.topic, message.value, key=message.key, headers=message.headers
        )
        sent.add_done_callback(_retrieved)
        return sent


def _retrieved(sent: "asyncio.Future[Any]") -> None:
    """Look at the error of a send that nobody may be waiting for any more."""
    if not sent.cancelled():
        sent.exception()


def _in_order(messages: Sequence[Message], sent: Sequence["asyncio.Future[Any]"]) -> list[int]:
    """What may be marked: a message after a failed one of its key has to go out again."""
    failed: set[tuple[str, bytes | None]] = set()
    done = []
    for message, future in zip(messages, sent, strict=True):
        place = (message.topic, message.key)
        if future.cancelled() or future.exception() is not None:
            failed.add(place)
        elif place not in failed:
            done.append(message.outbox_id)
    return done
