"""Everything that can happen to a leased job is tried; with one guard out, the search finds harm.

Each search prints the shortest way there (`pytest -s`, or the output of a failure). The worlds:
`PLAIN` has no stray statements, `LATE` one that arrives whenever it likes, and workers that hold
one attempt at a time. `WHOLE_MODEL=1` tries the larger ones whole too, which takes minutes.
"""

import os
from dataclasses import replace

import pytest

from tests.model import invariants as holds
from tests.model.explorer import Violation, explore
from tests.model.guards import names, without
from tests.model.terms import Protocol

PLAIN = Protocol(slots=1, strays_max=0)
LATE = Protocol(slots=1, strays_max=1, releases_max=0)
LATE_AND_RELEASED = replace(LATE, releases_max=1)
TWO_SLOTS = Protocol(slots=2, strays_max=1, releases_max=0)
THREE_WORKERS = replace(LATE, workers=3)

SINGLE = {
    "finish_epoch": (LATE, holds.STALE),
    "finish_expiry": (PLAIN, holds.STALE),
    "beat_expiry": (PLAIN, holds.STALE),
    "back_epoch": (LATE, holds.STALE),
    "back_expiry": (LATE, holds.STALE),
    "release_owner": (PLAIN, holds.STALE),
    "claim_rechecks": (LATE, holds.ONE_OWNER),
    "claim_closes_old": (PLAIN, holds.ATTEMPT_ROWS),
    "only_watcher_ends": (PLAIN, holds.DEAD_BY_WATCHER),
    "effect_with_end": (PLAIN, holds.EFFECT_AND_END),
    "commit_looked_up": (PLAIN, holds.TOLD),
    "trust_from_sending": (PLAIN, holds.BELIEF),
}
REPORTED = {
    "beat_epoch", "sweep_conditional", "attempts_at_claim", "attempts_max_fixed", "watcher_runs",
    "watcher_ends_worn_out", "new_owner_at_start",
}  # fmt: skip
# An epoch is one claim's, so one owner's, and is never processing again once it has ended.
REDUNDANT = ("finish_owner", "beat_owner", "back_owner", "finish_state")


@pytest.mark.parametrize("protocol", [PLAIN, LATE], ids=["plain", "late"])
def test_nothing_that_can_happen_breaks_a_promise(protocol: Protocol) -> None:
    explored = explore(protocol)
    assert explored.violation is None, str(explored.violation)
    assert explored.complete
    assert explored.states > 4000


@pytest.mark.skipif("WHOLE_MODEL" not in os.environ, reason="takes minutes: set WHOLE_MODEL=1")
@pytest.mark.parametrize(
    "protocol",
    [LATE_AND_RELEASED, TWO_SLOTS, THREE_WORKERS],
    ids=["late-and-released", "two-slots", "three-workers"],
)
@pytest.mark.timeout(900)
def test_nothing_in_the_larger_worlds_breaks_a_promise(protocol: Protocol) -> None:
    explored = explore(protocol, states_max=400_000)
    assert explored.violation is None, str(explored.violation)
    assert explored.complete


@pytest.mark.parametrize("guard", SINGLE)
def test_each_guard_is_missed_when_it_alone_is_out(guard: str) -> None:
    protocol, invariant = SINGLE[guard]
    assert invariant in _violation(protocol, guard).broken


def test_late_beat_of_an_old_epoch_renews_the_next_one_without_its_epoch() -> None:
    """Reported as aegra PR 547."""
    assert holds.STALE in _violation(LATE, "beat_epoch").broken


def test_watcher_overwrites_what_others_did_meanwhile_without_its_condition() -> None:
    """Reported as river 1302."""
    assert holds.WATCHER in _violation(PLAIN, "sweep_conditional").broken


def test_watcher_returns_a_finished_job_without_its_condition() -> None:
    """Reported as river 1302: the finished job runs again, and its effect is there twice."""
    ignored = holds.ALL - {holds.EFFECT_ONCE}
    assert holds.EFFECT_ONCE in _violation(PLAIN, "sweep_conditional", ignored=ignored).broken


def test_job_that_kills_its_worker_is_claimed_for_ever_if_only_ends_count() -> None:
    """Reported as hindsight 2675."""
    assert holds.ATTEMPTS_BOUNDED in _violation(PLAIN, "attempts_at_claim").broken


def test_job_never_wears_out_if_each_recovery_raises_its_attempts() -> None:
    """Reported as chancy."""
    assert holds.ATTEMPTS_BOUNDED in _violation(PLAIN, "attempts_max_fixed").broken


def test_what_the_dead_held_stays_taken_without_the_watcher() -> None:
    """Reported as procrastinate 307 and pgqueuer 630."""
    assert holds.IN_TIME in _violation(PLAIN, "watcher_runs").broken


def test_crash_at_the_last_attempt_is_stuck_if_the_watcher_does_not_end_it() -> None:
    """Reported as graphile 254."""
    ignored = frozenset({holds.IN_TIME})
    violation = _violation(PLAIN, "watcher_ends_worn_out", ignored=ignored)
    assert violation.broken == {holds.NEVER_STUCK}


def test_late_release_of_a_stopped_process_hits_the_next_one_if_that_has_its_name() -> None:
    """Reported as procrastinate 1518 and oban 862."""
    assert holds.BELIEF in _violation(LATE_AND_RELEASED, "new_owner_at_start").broken


def test_owner_and_state_are_second_lines_behind_the_epoch() -> None:
    """With the epoch in place, nothing gets worse without them: this is all that can happen."""
    explored = explore(replace(LATE, guards=without(*REDUNDANT)))
    assert explored.violation is None, str(explored.violation)
    assert explored.complete


@pytest.mark.parametrize("statement", ["finish", "beat", "back"])
def test_owner_holds_the_line_between_workers_while_no_statement_strays(statement: str) -> None:
    """Without its epoch alone the owner still does, and without both nothing does."""
    alone = explore(replace(PLAIN, guards=without(f"{statement}_epoch")))
    assert alone.violation is None, str(alone.violation)
    assert holds.STALE in _violation(PLAIN, f"{statement}_epoch", f"{statement}_owner").broken


def test_blind_retry_of_a_commit_repeats_its_effect_once_the_epoch_alone_is_left() -> None:
    """An unanswered commit that is not looked up meets the fence; without that it is done twice."""
    fence = ("finish_state", "finish_owner", "finish_expiry")
    ignored = holds.ALL - {holds.EFFECT_ONCE}
    looked_up = explore(replace(PLAIN, guards=without(*fence)), ignored=ignored)
    assert looked_up.violation is None, str(looked_up.violation)
    blind = _violation(PLAIN, *fence, "commit_looked_up", ignored=ignored)
    assert holds.EFFECT_ONCE in blind.broken


def test_release_that_was_given_up_may_take_a_later_claim_from_its_owner_but_writes_nothing() -> (
    None
):
    """Where it names an owner and no epochs, two may work on the job then; the fence lets one end.

    Only a process's last release does so, after which it claims no more: the one after a claim that
    was not answered names epochs.
    """
    late = replace(LATE_AND_RELEASED, late_release=True)
    assert _violation_of(late, frozenset()).broken == {holds.BELIEF}
    rest = explore(late, states_max=8000, ignored=frozenset({holds.BELIEF}))
    assert rest.violation is None, str(rest.violation)


def test_no_guard_is_without_a_test() -> None:
    assert {*SINGLE, *REPORTED, *REDUNDANT} == set(names())


def _violation(protocol: Protocol, *out: str, ignored: frozenset[str] = frozenset()) -> Violation:
    return _violation_of(replace(protocol, guards=without(*out)), ignored)


def _violation_of(protocol: Protocol, ignored: frozenset[str]) -> Violation:
    explored = explore(protocol, ignored=ignored)
    assert explored.violation is not None, f"nothing found in {explored.states} states"
    print(f"\n{explored.violation}")  # noqa: T201 - the shortest way there, for people
    return explored.violation
