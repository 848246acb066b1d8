"""What the sweeps are built with."""

from dataclasses import dataclass

from service.domain.schedule import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class SweeperTerms:
    """How often to look, how long each kind may take, how much a round opens at most.

    `consumer_group` is the one whose initial lag is waited for; `actor` stands in the log.
    """

    actor: str
    consumer_group: str
    outcome_topic: str
    rules: Rules
    interval_seconds: float = 60.0
    missing_at_erp_after_seconds: float = 3_600.0
    erp_settle_seconds: float = 86_400.0
    opened_max: int = 500
    page_max: int = 100
    log_page_max: int = 1_000
    log_pages_max: int = 200
    transaction_seconds: float = 30.0
