"""Runs the product's decoder over bytes in memory; rows as dicts, damage, account."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from muster_pipeline.decode.origin import Damage, Origin
from muster_pipeline.decode.segment import Account, Segment, decode_segment, reader
from muster_pipeline.schemas.records import RECORDS

CLUSTER, LOG_PARTITION = "c1", 3


@dataclass(frozen=True, kw_only=True)
class Result:
    """All pieces of a segment together."""

    table: pa.Table
    damages: list[Damage]
    account: Account

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.table.to_pylist()

    @property
    def offsets(self) -> list[int]:
        return self.table["log_offset"].to_pylist()


def decode(data: bytes, base: int = 0, next_base: int | None = None) -> Result:
    """`next_base` None: the active segment."""
    origin = Origin(cluster=CLUSTER, log_partition=LOG_PARTITION, file="0.log", segment_base=base)
    segment = Segment(origin=origin, size=len(data), next_base=next_base)
    pieces = list(decode_segment(reader(data), segment))
    batches = [piece.records for piece in pieces if piece.records is not None]
    for batch in batches:
        batch.validate(full=True)
    return Result(
        table=pa.Table.from_batches(batches, schema=RECORDS),
        damages=[damage for piece in pieces for damage in piece.damages],
        account=pieces[-1].account,
    )
