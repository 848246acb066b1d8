"""`reconciler demo` as people run it: a whole story in a process of its own, and its verdict."""

import asyncio
import os
import re
import signal

import pytest

from service.sandbox.child import is_gone
from service.sandbox.ports import LOOPBACK
from service.sandbox.story import tell
from tests.support.kafka.broker import ApacheKafka
from tests.support.postgres import Database
from tests.support.processes import ServiceProcess, ServiceProcesses
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)

STORY = ("demo", "--payments", "200")
WHOLE_STORY_SECONDS = 200.0

# A hostile neighbour in the database: one row says what nobody decided.
TAMPERING = """
CREATE FUNCTION tampered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.refunded_minor := 1;
    RETURN NEW;
END $$;
CREATE TRIGGER tampered BEFORE UPDATE ON payments
    FOR EACH ROW WHEN (NEW.payment_id = '{payment_id}') EXECUTE FUNCTION tampered();
"""


def _demo(services: ServiceProcesses, *options: str) -> ServiceProcess:
    process = services.new()
    process.start([*STORY, *options])
    return process


def _figure(lines: list[str], name: str) -> str:
    [found] = [line for line in lines if line.strip().startswith(name)]
    return found.split()[-1]


async def _line(process: ServiceProcess, beginning: str) -> str:
    def found() -> str | None:
        assert process.running, process.log_lines()
        return next((line for line in process.log_lines() if beginning in line), None)

    return str(await eventually(found, within_seconds=WHOLE_STORY_SECONDS, what=beginning))


async def _nobody_listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return True
    writer.close()
    return False


async def test_every_payment_equals_the_truth_and_serving_ends_with_the_signal(
    services: ServiceProcesses,
) -> None:
    demo = _demo(services, "--serve")
    health_url = (await _line(demo, "serving")).split()[1]
    demo.health_port = int(re.findall(r":(\d+)/", health_url)[0])
    assert (await demo.health("/readyz"))[0] == 200
    demo.terminate()
    assert await demo.wait() == 0

    lines = demo.log_lines()
    story = tell(200, seed=7)
    assert "all 200 payments equal the truth" in lines
    assert _figure(lines, "ingested records") == f"{len(story.records):,}"
    assert _figure(lines, "dead letters") == str(len(story.broken))
    assert _figure(lines, "lost successes") == str(len(story.lost))
    assert _figure(lines, "healed") == str(len(story.lost))
    assert int(_figure(lines, "jobs cut off by the kill")) > 0
    assert _figure(lines, "taken over") == _figure(lines, "jobs cut off by the kill")
    assert int(_figure(lines, "stale")) > 0
    assert int(_figure(lines, "duplicate")) > 0
    assert _figure(lines, "slowest heal") == "s"
    assert _figure(lines, "rate") == "events/s"
    assert "\x1b" not in "".join(lines)


async def test_one_wrong_row_is_named_and_fails_the_demo(
    services: ServiceProcesses, database: Database
) -> None:
    truth = tell(200, seed=7).truth
    payment_id = min(key for key, wanted in truth.items() if wanted.status == "succeeded")
    connection = await database.connect()
    await connection.execute(TAMPERING.format(payment_id=payment_id))

    demo = _demo(services, "--database", database.url)
    assert await demo.wait(WHOLE_STORY_SECONDS) == 1
    assert f"{payment_id}: refunded_minor should be 0, found 1" in demo.log_lines()
    assert "1 of 200 payments differ from the truth" in demo.log_lines()

    again = _demo(services, "--database", database.url)
    assert await again.wait() == 1
    [reason] = [line for line in again.log_lines() if "demo failed" in line]
    assert "holds 200 payments already: give an empty one" in reason


async def test_ctrl_c_in_the_midst_leaves_nothing_running(services: ServiceProcesses) -> None:
    demo = _demo(services)
    await _line(demo, "sending")
    os.kill(demo.pid, signal.SIGINT)
    assert await demo.wait() == 128 + signal.SIGINT

    text = "\n".join(demo.log_lines())
    pids = [int(pid) for pid in re.findall(r"process,? (\d+)", text)]
    ports = [int(port) for port in re.findall(r"(?:port |127\.0\.0\.1:)(\d+)", text)]
    assert len(pids) == 2
    assert len(ports) == 3
    assert all(is_gone(pid) for pid in pids)
    assert all([await _nobody_listens(port) for port in ports])


async def test_a_database_that_is_not_there_is_named(services: ServiceProcesses) -> None:
    demo = _demo(services, "--database", "postgresql://postgres@127.0.0.1:1/nowhere")
    assert await demo.wait() == 1
    assert any("the database cannot be used" in line for line in demo.log_lines())


@pytest.mark.kafka
async def test_story_is_told_on_apache_kafka_too(
    services: ServiceProcesses, database: Database, apache_kafka: ApacheKafka
) -> None:
    demo = _demo(services, "--database", database.url, "--kafka", apache_kafka.bootstrap_servers)
    assert await demo.wait(WHOLE_STORY_SECONDS) == 0
    assert "all 200 payments equal the truth" in demo.log_lines()
