"""Whether memory, connections, files and threads stay flat: generous rules, stated once.

Judged are lives of at least a minute and a third of the soak; a start after a crash begins anew.
"""

from collections.abc import Iterator, Mapping, Sequence

from tests.faults.soaking.samples import Life, connections, files, rss, threads

MIB = 1024 * 1024
LIFE_SECONDS_MIN, LIFE_SHARE_MIN = 60.0, 1 / 3
MEMORY_GROWTH_MAX_BYTES = 32 * MIB
FILES_GROWTH_MAX, THREADS_GROWTH_MAX = 40, 8
# A pool, the heartbeat's own, and one that takes the place of one being given up.
CONNECTIONS_MAX = 10 + 1 + 1

RULES = (
    f"memory: the median of a life's last tenth at most {MEMORY_GROWTH_MAX_BYTES // MIB} MiB above"
    f" that of its second tenth; files likewise {FILES_GROWTH_MAX}, threads {THREADS_GROWTH_MAX};"
    f" connections at the end at most {CONNECTIONS_MAX} a process, and none of one that is gone"
)


def judged(lives: Sequence[Life], *, soak_seconds: float) -> list[Life]:
    """The lives that are long enough to show a trend."""
    least = max(LIFE_SECONDS_MIN, LIFE_SHARE_MIN * soak_seconds)
    return [life for life in lives if life.seconds >= least]


def not_flat(
    lives: Sequence[Life], left_behind: Mapping[str, int], *, soak_seconds: float
) -> Iterator[str]:
    """What grows. `left_behind`: process id -> sessions that it left in the database."""
    long = judged(lives, soak_seconds=soak_seconds)
    if not long:
        yield "no process lived long enough to be judged"
    limits = (
        ("bytes of memory", rss, MEMORY_GROWTH_MAX_BYTES),
        ("open files", files, FILES_GROWTH_MAX),
        ("threads", threads, THREADS_GROWTH_MAX),
    )
    for life in long:
        for what, value, growth_max in limits:
            early, late = life.around(0.1, 0.2, value), life.around(0.9, 1.0, value)
            if late - early > growth_max:
                yield f"{life.title} went from {early:,.0f} to {late:,.0f} {what}"
    last = {life.name: life for life in sorted(lives, key=lambda life: life.start)}
    for life in last.values():
        if (held := life.last(connections)) > CONNECTIONS_MAX:
            yield f"{life.title} holds {held:.0f} connections at the end"
    for pid, number in left_behind.items():
        yield f"{number} connections of process {pid}, which is gone, are left"
