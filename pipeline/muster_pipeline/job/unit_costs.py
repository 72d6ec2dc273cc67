"""What a unit of work costs in processor time, as measured: docs/benchmarks.md, "Unit costs", which a test compares.

For plans, not for promises: another processor is as much faster or slower as it is.
"""

from dataclasses import dataclass
from typing import Final

BYTE_NS: Final = 27.0
"""A byte of log: read, decoded, folded, written as tables."""
TASK_MS: Final = 44
"""A log partition, however small: its dozen files."""
PUBLICATION_MS: Final = 306
"""A cluster: its files are looked at, its tables committed. On the driver, one cluster after another."""

TASK_AS_BYTES: Final = round(TASK_MS * 1e6 / BYTE_NS)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Processor seconds of a run."""

    executors_s: float
    driver_s: float

    @classmethod
    def of(cls, log_bytes: int, log_partitions: int, clusters: int) -> "Estimate":
        """By the unit costs above."""
        return cls(
            executors_s=(log_bytes * BYTE_NS / 1e9) + log_partitions * TASK_MS / 1e3,
            driver_s=clusters * PUBLICATION_MS / 1e3,
        )
