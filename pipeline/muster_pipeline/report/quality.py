"""Data quality: how many bytes were decoded, quarantined or pending, and which offsets are missing. It comes first on
the page, because all other sections depend on it."""

from collections import Counter
from dataclasses import dataclass

from muster_pipeline.report import limits
from muster_pipeline.report.source import Tables, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One row of quarantine."""

    log_partition: int
    file: str
    reason: str
    detail: str
    byte_from: int | None
    byte_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Sums over all files."""

    files: int
    log_partitions: int
    records: int
    bytes_in: int
    bytes_decoded: int
    bytes_quarantined: int
    bytes_pending: int
    records_quarantined: int
    offsets_missing: int
    damages: tuple[Damage, ...]
    damages_hidden: int
    damages_by_reason: tuple[tuple[str, int], ...]

    @property
    def is_conserved(self) -> bool:
        """Invariant I1: no byte was lost on the way."""
        return self.bytes_in == self.bytes_decoded + self.bytes_quarantined + self.bytes_pending

    @property
    def compaction_gap_ratio(self) -> float | None:
        """Share of log offsets without a record; None without offsets."""
        span = self.records + self.offsets_missing
        return self.offsets_missing / span if span else None


_FILE_COLUMNS = (
    "log_partition", "records", "bytes_in", "bytes_decoded", "bytes_quarantined", "bytes_pending",
    "records_quarantined", "offsets_missing",
)  # fmt: skip
_DAMAGE_COLUMNS = ("log_partition", "file", "reason", "detail", "byte_from", "byte_count")


def quality(tables: Tables) -> Quality:
    """One pass over `files`, one over `quarantine`."""
    sums = [0] * (len(_FILE_COLUMNS) - 1)
    files, partitions = 0, set()
    for partition, *numbers in rows(tables, "files", _FILE_COLUMNS):
        files += 1
        partitions.add(partition)
        sums = [total + number for total, number in zip(sums, numbers, strict=True)]
    damages: list[Damage] = []
    reasons: Counter[str] = Counter()
    for log_partition, file, reason, detail, byte_from, byte_count in rows(tables, "quarantine", _DAMAGE_COLUMNS):
        reasons[reason] += 1
        if len(damages) < limits.QUARANTINE_SHOWN_MAX:
            damages.append(
                Damage(
                    log_partition=log_partition, file=file, reason=reason, detail=detail, byte_from=byte_from,
                    byte_count=byte_count,
                )
            )  # fmt: skip
    records, bytes_in, decoded, quarantined, pending, records_quarantined, missing = sums
    return Quality(
        files=files,
        log_partitions=len(partitions),
        records=records,
        bytes_in=bytes_in,
        bytes_decoded=decoded,
        bytes_quarantined=quarantined,
        bytes_pending=pending,
        records_quarantined=records_quarantined,
        offsets_missing=missing,
        damages=tuple(damages),
        damages_hidden=reasons.total() - len(damages),
        damages_by_reason=tuple(reasons.most_common()),
    )
