"""What the running service tells probes and Prometheus, and what it never tells."""

import json
import re
import socket
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.faults.house import House, until, until_health
from tests.support.events import Record, erp_event

KEYS = {
    "postgres:responseTime",
    "postgres:schema",
    "kafka:connection",
    "kafka:assignment",
    "kafka:lag",
    "lease:workers",
    "lease:heartbeatAge",
    "watcher:lastSuccessAge",
    "payments:oldestPendingAge",
    "payments:deadLetters",
    "discrepancies:open",
    "runtime:eventLoopLag",
    "runtime:tasks",
}
WORDS_OF_INSIDE = ("select ", "update ", "error:", "exception", "traceback", "asyncpg", "127.0.0.1")


def shown(body: Any) -> str:
    """All text of a body without its times."""
    return re.sub(r'"time": "[^"]*"', "", json.dumps(body)).lower()


async def test_health_has_every_check_and_says_nothing_of_the_inside(house: House) -> None:
    service = house.start()
    await until_health(service, "/readyz", 200)
    await house.send(erp_event("pay-4711", 1), Record("erp", b"pay-4712", b"no json"))

    async def complete() -> Any:
        _, body = await service.health("/health")
        has_all = body["checks"].keys() == KEYS
        lags = body["checks"].get("kafka:lag", [])
        measured = [row for row in lags if row.get("observedValue") == 0]
        letters = body["checks"].get("payments:deadLetters", [{}])[0].get("observedValue")
        return body if has_all and len(measured) == 8 and letters == 1 else None

    body = await until(complete, "every check is there and has been measured")
    assert body["status"] == "warn"  # the dead letter
    assert body["version"]
    for path in ("/health", "/readyz", "/livez", "/startupz"):
        code, told = await service.health(path)
        assert code == 200
        assert told["checks"].keys() <= KEYS
        text = shown(told)
        for word in (
            *WORDS_OF_INSIDE,
            socket.gethostname().lower() + "/",
            "pay-47",
            str(service.pid),
        ):
            assert word not in text, f"{path}: {word}"
    rows = body["checks"]["kafka:lag"]
    topics = {house.topics.erp, house.topics.psp}
    assert {row["componentId"] for row in rows} == {f"{t}/{n}" for t in topics for n in range(4)}

    code, text = await service.health("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    ours = {name for name in families if name.startswith("reconciler_")}
    assert code == 200
    assert len(ours) > 20
    (events,) = [
        sample.value
        for sample in families["reconciler_events"].samples
        if sample.name == "reconciler_events_total"
        and sample.labels == {"source": "erp", "outcome": "applied"}
    ]
    assert events == 1
    assert "pay-47" not in text


async def test_health_of_a_worker_has_nothing_of_kafka(worker_house: House) -> None:
    worker = worker_house.start("reconcile,watch")
    await until_health(worker, "/readyz", 200)
    expected = {key for key in KEYS if not key.startswith("kafka:")}

    async def complete() -> bool:
        _, body = await worker.health("/health")
        return bool(body["checks"].keys() == expected and body["status"] == "pass")

    await until(complete, "every check of a worker")
