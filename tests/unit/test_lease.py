"""Trust in a lease is local, and only ever shorter than the lease."""

import pytest

from service.reconcile.lease import HeldJobs, LeaseTerms, new_owner
from service.store.jobs import Job, Lease

TERMS = LeaseTerms(owner="me", ttl_seconds=60, heartbeat_seconds=15, margin_seconds=5)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _job(number: int = 1) -> Job:
    return Job(Lease(number, 1), f"pay-{number}", "due", 1, 0)


def test_trust_counts_from_the_sending_of_the_claim_and_not_from_its_answer() -> None:
    clock = Clock()
    held = HeldJobs(TERMS, clock=clock)
    sent_at = clock.now
    clock.now += 20
    job = held.take(_job(), sent_at=sent_at)
    clock.now = sent_at + 54.9
    assert held.trusts(job)
    clock.now = sent_at + 55
    assert not held.trusts(job)


def test_late_answer_of_an_older_renewal_does_not_shorten_trust() -> None:
    clock = Clock()
    held = HeldJobs(TERMS, clock=clock)
    job = held.take(_job(), sent_at=1000)
    held.renewed([job.job.lease], sent_at=1030)
    held.renewed([job.job.lease], sent_at=1010)
    clock.now = 1080
    assert held.trusts(job)


def test_renewal_of_another_epoch_means_nothing() -> None:
    clock = Clock()
    held = HeldJobs(TERMS, clock=clock)
    job = held.take(_job(), sent_at=1000)
    held.renewed([Lease(1, 2)], sent_at=1050)
    clock.now = 1056
    assert not held.trusts(job)


def test_first_trust_to_end_is_known() -> None:
    held = HeldJobs(TERMS, clock=Clock())
    assert held.trust_ends_at() == float("inf")
    held.take(_job(1), sent_at=1010)
    held.take(_job(2), sent_at=1000)
    assert held.trust_ends_at() == 1055


def test_owner_is_new_at_every_start() -> None:
    first, second = new_owner(), new_owner()
    assert first != second
    assert first.split("/")[:2] == second.split("/")[:2]
    assert len(first.split("/")) == 3


@pytest.mark.parametrize(
    ("ttl", "heartbeat", "margin"), [(44, 15, 5), (60, 20, 40), (60, 15, -1), (60, 15, 45)]
)
def test_lease_that_cannot_work_is_refused(ttl: float, heartbeat: float, margin: float) -> None:
    with pytest.raises(ValueError, match="must"):
        LeaseTerms(owner="me", ttl_seconds=ttl, heartbeat_seconds=heartbeat, margin_seconds=margin)
