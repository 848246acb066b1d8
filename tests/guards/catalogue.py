"""The guards of the service, each with its text in the source and the claims that need it.

A guard that another one covers too is taken out together with that other one, and says so.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]

_SQL: Final = "service/store/sql"


@dataclass(frozen=True, slots=True)
class Cut:
    """Text of a file that is taken out, or replaced by something that does not guard."""

    file: str
    text: str
    instead: str = ""

    def times(self, checkout: Path = CHECKOUT) -> int:
        """How often the text stands in the file."""
        return (checkout / self.file).read_text(encoding="utf-8").count(self.text)

    def apply(self, checkout: Path) -> None:
        """Take it out of a copy of the project, everywhere in the file."""
        path = checkout / self.file
        source = path.read_text(encoding="utf-8")
        path.write_text(source.replace(self.text, self.instead), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard: what it is, how it is taken out, and the test files that must notice."""

    name: str
    cuts: tuple[Cut, ...]
    claims: tuple[str, ...]


def _sql(name: str, text: str, instead: str = "") -> Cut:
    return Cut(f"{_SQL}/{name}.sql", text, instead)


_UNSORTED: Final = Cut("service/store/book.py", "sorted(set(payment_ids))", "list(payment_ids)")
_ALIVE: Final = "AND job.lease_until > clock_timestamp()"
_EPOCH_OF_LEASE: Final = " AND lease.lease_epoch = job.lease_epoch"

GUARDS: Final = (
    Guard(
        "version guard: the source's version of a payment",
        (
            Cut("service/domain/classify.py", "if event.version > newest:", "if True:"),
            Cut(
                "service/domain/views.py",
                "advancing = fields if newer else view.advancing(version, fields)",
                "advancing = fields",
            ),
        ),
        ("tests/unit/test_fold_versions.py", "tests/unit/test_fold_any_order.py"),
    ),
    Guard(
        "version guard: the row version of payments",
        (_sql("payment_update", " AND payment.row_version = new.read_version"),),
        ("tests/integration/test_book.py",),
    ),
    Guard(
        "version guard: the row version of PSP payments",
        (_sql("psp_payment_update", "AND psp_payment.row_version = new.row_version"),),
        ("tests/integration/test_book.py",),
    ),
    Guard(
        "version guard: the version of discrepancies",
        (_sql("discrepancy_update", " AND held.version = new.version"),),
        ("tests/integration/test_book.py",),
    ),
    Guard(
        "version guard: the payment that moved while the PSP was asked, and its row version",
        (
            Cut(
                "service/reconcile/group.py",
                "elif proposal.moved(versions.get(proposal.payment_id)):",
                "elif False:",
            ),
            _sql("payment_update", " AND payment.row_version = new.read_version"),
        ),
        ("tests/integration/test_worker.py",),
    ),
    Guard(
        "offset fence: a position moves only from where its batch was read",
        (_sql("offset_advance", "AND stored.next_offset = moves.expected"),),
        ("tests/integration/test_ingest_apply.py",),
    ),
    Guard(
        "lease fence: a business transaction locks its lease first and ends its job last",
        (
            _sql("lease_lock", "AND lease.lease_epoch = job.lease_epoch"),
            _sql("lease_lock", "job.lease_owner = $1", "$1::text IS NOT NULL"),
            _sql("lease_lock", _ALIVE),
            _sql("job_finish", "AND job.lease_epoch = ending.lease_epoch"),
            _sql("job_finish", "AND job.lease_owner = $1", "AND $1::text IS NOT NULL"),
            _sql("job_finish", _ALIVE),
        ),
        ("tests/integration/test_settle.py", "tests/integration/test_lease.py"),
    ),
    Guard(
        "lease fence: the epoch at a job's end",
        (_sql("job_finish", "AND job.lease_epoch = ending.lease_epoch"),),
        ("tests/integration/test_lease.py",),
    ),
    Guard(
        "lease fence: the owner at a job's end",
        (_sql("job_finish", "AND job.lease_owner = $1", "AND $1::text IS NOT NULL"),),
        ("tests/integration/test_lease.py",),
    ),
    Guard(
        "lease fence: the expiry at a job's end",
        (_sql("job_finish", _ALIVE),),
        ("tests/integration/test_lease.py",),
    ),
    Guard(
        "heartbeat: a late beat renews no successor's lease",
        (
            _sql("lease_renew", _EPOCH_OF_LEASE),
            _sql("lease_renew", "AND job.lease_owner = $1", "AND $1::text IS NOT NULL"),
            _sql("lease_renew", "job.lease_owner = $1", "$1::text IS NOT NULL"),
        ),
        ("tests/integration/test_lease.py",),
    ),
    Guard(
        "watcher: a job that ended meanwhile is not brought back",
        (
            _sql("job_return_expired", " AND lease.lease_epoch = job.lease_epoch"),
            _sql("job_return_expired", "job.status = 'processing'", "true"),
            _sql("job_return_expired", "AND job.lease_until <= statement_timestamp()"),
        ),
        ("tests/integration/test_watcher.py",),
    ),
    Guard(
        "sorted locks: payments are created in key order",
        (_sql("payment_ensure", 'ORDER BY payment_id COLLATE "C"'), _UNSORTED),
        ("tests/integration/test_lock_order.py",),
    ),
    Guard(
        "sorted locks: payments are locked in key order",
        (_sql("payment_lock", "ORDER BY payment_id"), _UNSORTED),
        ("tests/integration/test_lock_order.py",),
    ),
    Guard(
        "unknown commit: ingest looks whether its batch is there",
        (
            Cut(
                "service/ingest/writer.py", "self._unsure = (batch, applied)", "self._unsure = None"
            ),
        ),
        ("tests/integration/test_ingest_apply.py",),
    ),
    Guard(
        "unknown commit: a worker looks whether its job has ended",
        (Cut("service/reconcile/settle.py", "if unknown:", "if False:"),),
        ("tests/integration/test_settle.py",),
    ),
    Guard(
        "heal cap: the allowance is taken under the row's lock",
        (_sql("control_take_heals", "    FOR NO KEY UPDATE\n"),),
        ("tests/integration/test_lease.py", "tests/integration/test_heal_cap.py"),
    ),
    Guard(
        "relay: a deposed relay marks nothing as published",
        (
            _sql("outbox_publish", "AND controls.relay_epoch = $3", "AND $3::bigint IS NOT NULL"),
            _sql("outbox_publish", "AND controls.relay_owner = $2", "AND $2::text IS NOT NULL"),
        ),
        ("tests/integration/test_relay.py",),
    ),
    Guard(
        "trust: a lease counts from the moment its claim was sent",
        (
            Cut(
                "service/reconcile/lease.py", "return sent_at + self", "return self._clock() + self"
            ),
        ),
        ("tests/unit/test_lease.py",),
    ),
)
