"""The table `operator_actions`: who changed what by command, from what to what, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service.store.statements import sql


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One change. `action` is what was done ("offsets.set"), `subject` what it was done to
    ("erp.payments/3"); `before` and `after` hold JSON values.
    """

    actor: str
    action: str
    subject: str
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    note: str | None = None


async def record(connection: Any, action: Action) -> None:
    """Write it in the caller's transaction, which is that of the change itself."""
    await connection.execute(
        sql("operator_action_insert"),
        action.actor,
        action.action,
        action.subject,
        dict(action.before),
        dict(action.after),
        action.note,
    )
