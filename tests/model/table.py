"""The rows of one job, and the statements on them, as the model has them.

Each function is one statement of service/store/sql: it changes the rows as a whole or not at all,
and gives its answer. Time is ticks: a lease of `TTL` ticks has run out when none is left. A finish
that is not committed yet has the row locked: who skips locked rows in the service skips it here.
Backoff is left out: what is pending is due.
"""

from typing import NamedTuple

from tests.model.guards import Guards

TTL = 2
ATTEMPTS_MAX = 2

PENDING, PROCESSING, COMPLETED, DEAD = "pending", "processing", "completed", "dead"
OPEN, EXPIRED, DONE = "", "expired", "done"


class Table(NamedTuple):
    """A job, the outcomes of its attempts (by epoch), and how often its business effect is there.

    `locked` is the epoch whose finish is not committed yet, 0 for none; `overdue` the ticks since
    the lease ran out.
    """

    status: str = PENDING
    owner: int = 0
    epoch: int = 0
    left: int = 0
    overdue: int = 0
    attempts: int = 0
    releases: int = 0
    attempts_max: int = ATTEMPTS_MAX
    effects: int = 0
    outcomes: tuple[str, ...] = ()
    locked: int = 0
    locked_for: int = 0

    @property
    def worn_out(self) -> bool:
        """Whether its attempts are used up."""
        return self.attempts - self.releases >= self.attempts_max

    @property
    def expired(self) -> bool:
        """Whether its lease has run out and nobody has taken note of it."""
        return self.status == PROCESSING and self.left == 0

    @property
    def due(self) -> bool:
        """Whether a claim may take it."""
        free = self.status == PENDING or self.expired
        return free and not self.worn_out and not self.locked

    @property
    def ended(self) -> bool:
        """Whether nothing can happen to it any more."""
        return self.status in {COMPLETED, DEAD}

    def leased_to(self, owner: int, epoch: int) -> bool:
        """Whether this is the lease that counts: this owner's, this epoch's, not run out."""
        return (self.status, self.owner, self.epoch) == (PROCESSING, owner, epoch) and self.left > 0


def claim(table: Table, guards: Guards, *, owner: int, seen_due: bool) -> tuple[Table, int]:
    """job_claim.sql; the epoch of the new lease, 0 if there was nothing to take."""
    due = table.due if guards.claim_rechecks else seen_due
    if not due:
        return table, 0
    outcomes = table.outcomes
    if guards.claim_closes_old:
        outcomes = _closed(table, EXPIRED).outcomes
    taken = table._replace(
        status=PROCESSING,
        owner=owner,
        epoch=table.epoch + 1,
        left=TTL,
        overdue=0,
        attempts=table.attempts + guards.attempts_at_claim,
        outcomes=(*outcomes, OPEN),
    )
    return taken, taken.epoch


def renew(table: Table, guards: Guards, *, owner: int, epoch: int) -> tuple[Table, bool]:
    """lease_renew.sql, which passes over a locked row."""
    if table.locked or not _matches(
        table,
        owner=owner if guards.beat_owner else 0,
        epoch=epoch if guards.beat_epoch else 0,
        unexpired=guards.beat_expiry,
    ):
        return table, False
    return table._replace(left=TTL, overdue=0), True


def finish(table: Table, guards: Guards, *, owner: int, epoch: int) -> tuple[Table, bool]:
    """lease_lock.sql and job_finish.sql up to the commit; the caller sees that no lock is held."""
    if not guards.effect_with_end:
        table = table._replace(effects=table.effects + 1)
    ours = _matches(
        table,
        owner=owner if guards.finish_owner else 0,
        epoch=epoch if guards.finish_epoch else 0,
        unexpired=guards.finish_expiry,
        processing=guards.finish_state,
    )
    return (table._replace(locked=epoch, locked_for=0), True) if ours else (table, False)


def commit(table: Table, guards: Guards) -> Table:
    """The transaction that has the lock commits: effect, attempt's end and job's end at once."""
    done = _closed(_counted(table, guards), DONE)
    return _unleased(done, COMPLETED)._replace(
        effects=table.effects + guards.effect_with_end, locked=0, locked_for=0
    )


def roll_back(table: Table) -> Table:
    """The transaction that has the lock ends without a trace."""
    return table._replace(locked=0, locked_for=0)


def settled(table: Table, epoch: int) -> bool:
    """lease_settled.sql: whether the job ended under this epoch."""
    return table.status == COMPLETED and table.epoch == epoch


def put_back(
    table: Table, guards: Guards, *, owner: int, epoch: int, outcome: str
) -> tuple[Table, bool]:
    """job_put_back.sql; the caller sees that no lock is held."""
    if not _matches(
        table,
        owner=owner if guards.back_owner else 0,
        epoch=epoch if guards.back_epoch else 0,
        unexpired=guards.back_expiry,
    ):
        return table, False
    ended = not guards.only_watcher_ends and table.worn_out and outcome == "failed"
    back = _closed(_counted(table, guards), outcome)._replace(
        releases=table.releases + (outcome == "released")
    )
    return _unleased(back, DEAD if ended else PENDING), True


def release_all(table: Table, guards: Guards, *, owner: int) -> tuple[Table, bool]:
    """lease_release_all.sql, which passes over a locked row."""
    if table.locked or not _matches(table, owner=owner if guards.release_owner else 0):
        return table, False
    back = _closed(_counted(table, guards), "released")
    return _unleased(back, PENDING)._replace(releases=table.releases + 1), True


def return_expired(table: Table, guards: Guards, *, epoch: int) -> tuple[Table, bool]:
    """job_return_expired.sql, which passes over a locked row."""
    if guards.sweep_conditional and (
        table.locked or not table.expired or table.epoch != epoch or table.worn_out
    ):
        return table, False
    raised = table.attempts_max + (not guards.attempts_max_fixed)
    back = _closed(table, EXPIRED)._replace(attempts_max=raised)
    return _unleased(back, PENDING), True


def die(table: Table, guards: Guards, *, epoch: int) -> tuple[Table, bool]:
    """job_die.sql; the caller sees that no lock is held."""
    unheld = table.status == PENDING or table.expired
    if guards.sweep_conditional and not (unheld and table.epoch == epoch and table.worn_out):
        return table, False
    return _unleased(_closed(table, EXPIRED), DEAD), True


def aged(table: Table) -> Table:
    """One tick later."""
    if table.locked:
        table = table._replace(locked_for=table.locked_for + 1)
    if table.status != PROCESSING:
        return table
    if table.left:
        return table._replace(left=table.left - 1)
    return table._replace(overdue=table.overdue + 1)


def _matches(
    table: Table,
    *,
    owner: int = 0,
    epoch: int = 0,
    unexpired: bool = True,
    processing: bool = True,
) -> bool:
    """Whether the row is what a statement asks for; 0 asks for any owner, any epoch."""
    return (
        (not processing or table.status == PROCESSING)
        and (not owner or table.owner == owner)
        and (not epoch or table.epoch == epoch)
        and (not unexpired or table.left > 0)
    )


def _counted(table: Table, guards: Guards) -> Table:
    """An attempt that is counted only where it ends, if the claim did not."""
    return table._replace(attempts=table.attempts + (not guards.attempts_at_claim))


def _closed(table: Table, outcome: str) -> Table:
    """The newest attempt closed, if it is open."""
    if not table.outcomes or table.outcomes[-1] != OPEN:
        return table
    return table._replace(outcomes=(*table.outcomes[:-1], outcome))


def _unleased(table: Table, status: str) -> Table:
    return table._replace(status=status, owner=0, left=0, overdue=0)
