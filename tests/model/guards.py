"""What keeps the lease protocol safe, each guard a switch of its own: all are on in the service."""

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Guards:
    """The protocol's guards; where one stands in the service is said beside it."""

    # job_finish.sql and lease_lock.sql: what the end of a job has to match
    finish_epoch: bool = True
    finish_owner: bool = True
    finish_expiry: bool = True
    finish_state: bool = True
    # lease_renew.sql
    beat_epoch: bool = True
    beat_owner: bool = True
    beat_expiry: bool = True
    # job_put_back.sql
    back_epoch: bool = True
    back_owner: bool = True
    back_expiry: bool = True
    # lease_release_all.sql
    release_owner: bool = True
    # job_claim.sql: the state is checked again under the row's lock; the attempts are counted
    # there; the attempt that was left open is closed there
    claim_rechecks: bool = True
    attempts_at_claim: bool = True
    claim_closes_old: bool = True
    # job_return_expired.sql and job_die.sql: state, epoch and expiry are checked once more
    sweep_conditional: bool = True
    attempts_max_fixed: bool = True
    # the watcher: it makes rounds, ends what is worn out, and nobody else does
    watcher_runs: bool = True
    watcher_ends_worn_out: bool = True
    only_watcher_ends: bool = True
    # the settlement: effect and end in one transaction; an unanswered commit is looked up
    effect_with_end: bool = True
    commit_looked_up: bool = True
    # the process: trust counts from the sending; each start has an owner of its own
    trust_from_sending: bool = True
    new_owner_at_start: bool = True


ALL_ON = Guards()


def without(*names: str) -> Guards:
    """All guards but these. Raises TypeError for a name that is none."""
    return replace(ALL_ON, **dict.fromkeys(names, False))


def names() -> tuple[str, ...]:
    """Every guard there is."""
    return tuple(each.name for each in fields(Guards))
