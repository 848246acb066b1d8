"""What came of the story: figures for people, failures for the exit code."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from service.sandbox.ledger import Healed, Progress
from service.sandbox.report import Figures
from service.sandbox.story import Story
from service.sandbox.truth import Truth, differences


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that the checks and the last table are made of.

    `interrupted` are the jobs that the killed worker held, `ingest_seconds` the time from the first
    record sent to the last one taken in.
    """

    story: Story
    progress: Progress
    duplicates: int
    refusals: Mapping[str, int]
    found: Mapping[str, Truth]
    healed: Healed
    interrupted: int
    taken_over: int
    ingest_seconds: float

    def failures(self) -> list[str]:
        """What is not as it must be, a line each: counts, then each field of a payment."""
        return [
            *(
                f"{what}: should be {expected!r}, found {found!r}"
                for what, expected, found in self._counts()
                if expected != found
            ),
            *(str(difference) for difference in differences(self.story.truth, self.found)),
        ]

    def verdict(self) -> str:
        """One sentence."""
        payments = len(self.story.truth)
        wrong = {one.payment_id for one in differences(self.story.truth, self.found)}
        if wrong:
            return f"{len(wrong):,} of {payments:,} payments differ from the truth"
        others = len(self.failures())
        if others:
            return f"all {payments:,} payments equal the truth, but {others} counts are wrong"
        return f"all {payments:,} payments equal the truth"

    def figures(self) -> Figures:
        """The table at the end."""
        progress = self.progress
        opened = Counter(kind for truth in self.found.values() for kind in truth.open_discrepancies)
        records = len(self.story.records)
        return [
            ("ingested records", f"{progress.ingested:,}"),
            ("  applied", f"{progress.applied:,}"),
            ("  stale", f"{progress.stale:,}"),
            ("  duplicate", f"{self.duplicates:,}"),
            ("  dead letters", f"{progress.dead_letters:,}"),
            ("lost successes", f"{len(self.story.lost):,}"),
            ("  healed", f"{self.healed.payments:,}"),
            ("jobs cut off by the kill", f"{self.interrupted:,}"),
            ("  taken over", f"{self.taken_over:,}"),
            ("slowest heal", f"{self.healed.slowest_seconds:.1f} s"),
            ("rate", f"{records / max(self.ingest_seconds, 0.001):,.0f} events/s"),
            ("outgoing events", f"{progress.announced:,}"),
            ("open discrepancies", f"{opened.total():,}"),
            *((f"  {kind}", f"{number:,}") for kind, number in sorted(opened.items())),
        ]

    def _counts(self) -> list[tuple[str, object, object]]:
        progress = self.progress
        accounted = (
            progress.applied
            + progress.stale
            + progress.conflicts
            + self.duplicates
            + progress.dead_letters
        )
        return [
            ("records accounted for", len(self.story.records), accounted),
            ("dead letters by reason", dict(self.story.broken), dict(self.refusals)),
            ("lost successes healed", len(self.story.lost), self.healed.payments),
            ("jobs taken over after the kill", self.interrupted, self.taken_over),
            ("dead jobs", 0, progress.dead_jobs),
        ]
