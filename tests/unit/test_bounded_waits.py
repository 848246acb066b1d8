"""What the source itself shows: waits with limits, coroutines with owners, no session lock."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

SERVICE = Path(__file__).parents[2] / "service"


class Wait(NamedTuple):
    """An await of something that may last for ever by itself."""

    module: str
    function: str
    waits_for: str


WAITED_FOR = re.compile(
    r"\.(wait|wait_for|gather|join|acquire|getmany|position|beginning_offsets|end_offsets"
    r"|offsets_for_times|commit|send|flush|start|stop|getaddrinfo|serve)$"
    r"|_queue\.(get|put)$|^(asyncpg|asyncio)\."
)
# Where the waits without a limit of their own are, and what ends them.
ENDED_OTHERWISE = {
    Wait("app.py", "_run_parts", "self._stop.wait"): "the life of the process",
    Wait("app.py", "_drain", "self._stop.wait"): "the life of the process",
    Wait("ingest/session.py", "run", "stop.wait"): "the life of the process",
    Wait("reconcile/worker.py", "run", "stop.wait"): "the life of the process",
    Wait("web/server.py", "_until_stopped", "asyncio.wait"): "the life of the process",
    Wait("ingest/session.py", "_write", "self._queue.get"): "waits for work",
    Wait("reconcile/settle.py", "_write_groups", "self._queue.get"): "waits for work",
    Wait("ingest/session.py", "_drain", "self.watch.commit"): "commit() bounds itself",
    Wait("ingest/watch.py", "run", "self.commit"): "commit() bounds itself",
    Wait("ingest/fetcher.py", "_hand_over", "self._queue.put"): "there is room: _room() saw it",
    Wait("ingest/fetcher.py", "_poll", "self._consumer.getmany"): "its own timeout_ms",
    Wait("ingest/fetcher.py", "_hand_over", "self._consumer.position"): "known: it has fetched",
    Wait("ingest/fetcher.py", "_mark_caught_up", "self._consumer.position"): "known since the seek",
    Wait("ingest/watch.py", "_check_stall", "self._consumer.position"): "known since the seek",
    Wait("reconcile/settle.py", "_hand_in", "item.verdict"): "the lease, which ends every try",
    Wait("outbox/publisher.py", "_begin", "self._producer.start"): "send() bounds all of it",
    Wait("outbox/publisher.py", "_begin", "self._producer.send"): "send() bounds all of it",
    Wait("outbox/relay.py", "_publish", "self._publisher.send"): "send() bounds itself",
    Wait("psp/guarded.py", "_ask_within_limits", "self._bucket.acquire"): "the question's budget",
    Wait("psp/token_file.py", "_token", "asyncio.to_thread"): "the time of one try",
    Wait("web/server.py", "listen", "asyncio.get_running_loop().getaddrinfo"): "once, at the start",
}
# They end by themselves; the statements of a connection by the limits of its session.
OF_ITS_OWN = re.compile(r"^asyncio\.sleep$|^asyncpg\.|^running\.(start|commit|rollback)$")
ROOMS = ("app.py", "lifecycle.py", "ingest", "outbox", "psp", "reconcile", "store", "web")
NOT_IN_RUN = frozenset({"ingest/topic_log.py", "ingest/topic_replay.py"})
"""Rooms of commands that a person runs and may end."""


def test_every_wait_of_the_running_service_has_a_limit_or_a_reason() -> None:
    """Reported as river PR 1255. What this reads is only what is written: awaits by their names."""
    found = {wait for module in modules() for wait in unbounded(module)}
    assert found - ENDED_OTHERWISE.keys() == set(), "bound it, or say what ends it"
    assert ENDED_OTHERWISE.keys() - found == set(), "it is bounded now, or gone"


def test_every_borrowed_connection_is_waited_for_with_a_limit() -> None:
    without = [
        f"{name}: {ast.unparse(call)}"
        for name, tree in modules()
        for call in calls(tree)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "acquire"
        and "pool" in ast.unparse(call.func)
        and not has_timeout(call)
    ]
    assert without == []


def test_connections_are_opened_in_one_place_alone() -> None:
    openings = [
        (name, ast.unparse(call.func))
        for name, tree in modules()
        for call in calls(tree)
        if re.fullmatch(r"asyncpg\.(connect|create_pool)", ast.unparse(call.func))
    ]
    assert openings == [
        ("store/pool.py", "asyncpg.create_pool"),
        ("store/pool.py", "asyncpg.connect"),
    ]


def test_every_coroutine_that_is_started_has_an_owner() -> None:
    """Reported as cpython 117379: one that nobody refers to may be collected while it runs."""
    orphans = []
    for path in sorted(SERVICE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for statement in ast.walk(tree):
            if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
                continue
            called = ast.unparse(statement.value.func)
            owned = re.fullmatch(r"(group|writers|tasks|.*_group)\.create_task", called)
            if re.search(r"create_task$|ensure_future$|run_coroutine", called) and not owned:
                orphans.append(f"{path.relative_to(SERVICE)}:{statement.lineno}: {called}")
    assert orphans == []


def test_every_group_that_owns_coroutines_is_a_task_group() -> None:
    """Reported as cpython 117379."""
    for path in sorted(SERVICE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for name in set(re.findall(r"(\w+)\.create_task\(", text)) - {"asyncio", "loop"}:
            given = rf"(asyncio\.)?TaskGroup\(\) as {name}\b|{name}: asyncio\.TaskGroup"
            assert re.search(given, text), f"{path.name}: {name}"


def test_no_session_lock_is_taken_anywhere() -> None:
    """Reported as que 298. Migrations hold one lock until the end of their transaction."""
    texts = [
        (path, path.read_text(encoding="utf-8"))
        for folder in (SERVICE, SERVICE.parent / "migrations")
        for path in sorted(folder.rglob("*"))
        if path.suffix in {".py", ".sql"}
    ]
    locks = [
        (path.name, lock) for path, text in texts for lock in re.findall(r"pg_\w*advisory\w*", text)
    ]
    assert locks == [("runner.py", "pg_advisory_xact_lock")]


def modules() -> Iterator[tuple[str, ast.Module]]:
    for room in ROOMS:
        for path in sorted((SERVICE / room).rglob("*.py")) or [SERVICE / room]:
            name = path.relative_to(SERVICE).as_posix()
            if name not in NOT_IN_RUN:
                yield name, ast.parse(path.read_text(encoding="utf-8"))


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def has_timeout(call: ast.Call) -> bool:
    return any(keyword.arg in {"timeout", "timeout_seconds"} for keyword in call.keywords)


def unbounded(module: tuple[str, ast.Module]) -> Iterator[Wait]:
    """The waits for something that lasts as long as others like, outside of any time-out."""
    name, tree = module
    for function in ast.walk(tree):
        if isinstance(function, ast.AsyncFunctionDef):
            for awaited in awaits(function.body, bounded=False):
                yield Wait(name, function.name, awaited)


def awaits(body: Sequence[ast.AST], *, bounded: bool) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
            continue  # it is looked at as a function of its own
        if isinstance(node, ast.Await) and not bounded:
            yield from waited_for(node.value)
        limits = isinstance(node, ast.AsyncWith) and any(
            re.search(r"timeout\(|borrowed\(|bounded", ast.unparse(item.context_expr))
            for item in node.items
        )
        yield from awaits(list(ast.iter_child_nodes(node)), bounded=bounded or limits)


def waited_for(value: ast.expr) -> Iterator[str]:
    if not isinstance(value, ast.Call):
        yield ast.unparse(value)
        return
    called = ast.unparse(value.func)
    if WAITED_FOR.search(called) and not OF_ITS_OWN.match(called) and not has_timeout(value):
        yield called
