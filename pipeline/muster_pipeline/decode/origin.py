"""The origin of bytes, and quarantine rows that record it."""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import pyarrow as pa

from muster_pipeline.schemas.quarantine import QUARANTINE, RAW_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One file, or one partition of a live cluster (`file` is then "fetch" and `segment_base` -1)."""

    cluster: str
    log_partition: int
    file: str
    segment_base: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One row of `quarantine` without its origin. See `schemas.quarantine` for the fields."""

    scope: str
    reason: str
    detail: str
    byte_from: int | None = None
    byte_to: int | None = None
    byte_count: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    raw: bytes | None = None
    sha256: str | None = None


def of_bytes(reason: str, detail: str, start: int, data: bytes) -> Damage:
    """A damaged region that begins at file position `start`."""
    return Damage(
        scope="bytes",
        reason=reason,
        detail=detail,
        byte_from=start,
        byte_to=start + len(data),
        byte_count=len(data),
        raw=data[:RAW_BYTES_MAX],
        sha256=hashlib.sha256(data).hexdigest(),
    )


def of_record(reason: str, detail: str, offset: int, batch: tuple[int | None, int | None], data: bytes) -> Damage:
    """An undecodable record of the sound batch at file positions `batch`."""
    return Damage(
        scope="record",
        reason=reason,
        detail=detail,
        byte_from=batch[0],
        byte_to=batch[1],
        first_offset=offset,
        last_offset=offset,
        raw=data[:RAW_BYTES_MAX],
        sha256=hashlib.sha256(data).hexdigest(),
    )


def of_finding(reason: str, detail: str, offsets: tuple[int, int], data: bytes = b"") -> Damage:
    """Something about sound records [first, last], which stay in `records`."""
    return Damage(
        scope="finding",
        reason=reason,
        detail=detail,
        first_offset=offsets[0],
        last_offset=offsets[1],
        raw=data[:RAW_BYTES_MAX] or None,
        sha256=hashlib.sha256(data).hexdigest() if data else None,
    )


def quarantine(origin: Origin, damages: Iterable[Damage]) -> pa.RecordBatch:
    """Rows of `quarantine`."""
    head = asdict(origin)
    return pa.RecordBatch.from_pylist([{**head, **asdict(damage)} for damage in damages], schema=QUARANTINE)
