import asyncio
import io
import json
import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import structlog

from service.observe.events import Event
from service.observe.logs import Form, configure_logs

VISA = "4111111111111111"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def fail(text: str) -> None:
    raise ValueError(text)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_log_line_is_json_with_utc_time_and_its_fields() -> None:
    stream = io.StringIO()
    configure_logs("INFO", "auto", stream=stream)
    structlog.get_logger("service.watcher").info(Event.LEASES_EXPIRED, count=3)
    structlog.get_logger().debug(Event.STARTED)

    (line,) = lines(stream)
    assert line["event"] == "watcher.leases_expired"
    assert line["count"] == 3
    assert line["level"] == "info"
    assert line["logger"] == "service.watcher"
    assert datetime.fromisoformat(line["timestamp"]).utcoffset() is not None
    assert line["timestamp"].endswith("Z")


def test_loggers_of_the_standard_library_take_the_same_way() -> None:
    stream = io.StringIO()
    configure_logs("INFO", "json", stream=stream)
    logging.getLogger("uvicorn.error").warning("cannot reach %s", "postgresql://a:hunter2@db/x")
    logging.getLogger("aiokafka.consumer").info("one line a record")

    (line,) = lines(stream)
    assert line["event"] == "cannot reach postgresql://a:****@db/x"
    assert line["logger"] == "uvicorn.error"
    assert line["level"] == "warning"


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_secret_and_no_card_number_is_logged_anywhere(form: Form) -> None:
    stream = io.StringIO()
    configure_logs("INFO", form, stream=stream)
    fields: dict[str, Any] = {"token": "hunter2", "data": {"card": VISA}, VISA: 1}
    try:
        fail(f"bad card {VISA} at postgresql://app:hunter2@db/x")
    except ValueError:
        structlog.get_logger().exception(f"failed for {VISA}", **fields)
        logging.getLogger("asyncio").exception("never retrieved")

    assert stream.getvalue().count("ValueError: bad card ****") == 2
    assert VISA not in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


def test_a_terminal_gets_a_line_for_people() -> None:
    stream = Terminal()
    configure_logs("INFO", "auto", stream=stream)
    structlog.get_logger().info(Event.STARTED, role="worker")

    assert "process.started" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


async def test_bound_fields_follow_the_coroutine() -> None:
    stream = io.StringIO()
    configure_logs("INFO", "json", stream=stream)

    async def work(job_id: int) -> None:
        with structlog.contextvars.bound_contextvars(job_id=job_id):
            await asyncio.sleep(0)
            structlog.get_logger().info(Event.JOB_FINISHED)

    await asyncio.gather(work(1), work(2))
    assert [line["job_id"] for line in lines(stream)] == [1, 2]
