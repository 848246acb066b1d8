"""What a command line says of topics, partitions and times, checked before anything is done."""

from collections.abc import Sequence
from datetime import datetime

from pydantic_core import PydanticCustomError

from schemas.attributes import utc_time
from service.errors import ConfigurationError
from service.ingest.topic_log import TopicLog
from service.settings import Settings
from service.store.offsets import Partition


def time_of(option: str, text: str) -> datetime:
    """An RFC 3339 time with offset. Raises ConfigurationError."""
    try:
        return utc_time(text)
    except PydanticCustomError:
        raise ConfigurationError(
            f"{option} is {text!r}; allowed: RFC 3339 with an offset, as 2026-03-01T10:00:00Z"
        ) from None


def require_source_topic(settings: Settings, topic: str) -> None:
    """Raise ConfigurationError for a topic that this service does not consume."""
    known = {settings.kafka.erp_topic, settings.kafka.psp_topic}
    if topic not in known:
        raise ConfigurationError(f"--topic is {topic!r}; allowed: {', '.join(sorted(known))}")


async def require_partitions(log: TopicLog, topic: str, numbers: Sequence[int]) -> list[Partition]:
    """Those partitions of the topic, all for no numbers.

    Raises ConfigurationError for a topic or a partition that there is not, and BrokerSilent.
    """
    known = await log.partitions([topic])
    if not known:
        raise ConfigurationError(f"--topic is {topic!r}, which the broker does not have")
    absent = sorted(set(numbers) - {partition.number for partition in known})
    if absent:
        raise ConfigurationError(
            f"--partition is {', '.join(map(str, absent))}; {topic} has 0 to {known[-1].number}"
        )
    return [partition for partition in known if not numbers or partition.number in numbers]
