"""Settings on which the results of a run depend; published in the manifest."""

from dataclasses import dataclass

from muster_pipeline.tables.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldSettings:
    """Settings of the gold tables."""

    cluster: str = "default"
    """Name written into column `cluster`."""
    stall_min_ms: int = 300_000
    """A committed offset that does not move for at least this long is a stall."""
    offsets_retention_ms: int = 604_800_000
    """offsets.retention.minutes of the cluster in ms (Kafka's default: 7 days); the log does not hold it."""

    def __post_init__(self) -> None:
        """Raises BadInput."""
        if self.stall_min_ms < 1:
            raise BadInput(f"stall_min_ms is {self.stall_min_ms}; it must be at least 1")
        if self.offsets_retention_ms < 1:
            raise BadInput(f"offsets_retention_ms is {self.offsets_retention_ms}; it must be at least 1")
