"""Records of types that this release does not know. Each is a finding: the report of a later Kafka's log must not look
complete.

The record itself stays in `records`, raw. Keys of all types so far begin with the group's id, so the group that it is
probably about is named: what this release knows of that group may not be all.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.decode.origin import Damage, of_finding
from muster_pipeline.decode.structs import group_of
from muster_pipeline.schemas.records import NAMED_TYPES

_KNOWN: Final = pa.array(NAMED_TYPES, pa.int16())


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """One record; `group_id` is None if its key does not begin with a name."""

    damage: Damage
    group_id: str | None


def decode_unknown(records: pa.RecordBatch | pa.Table) -> tuple[Unknown, ...]:
    """Findings of the rows of `records` (columns key_type, log_offset, key and value) whose type is not known."""
    kinds = records["key_type"]
    strange = pc.and_(pc.is_valid(kinds), pc.invert(pc.is_in(kinds, _KNOWN)))
    if not pc.any(strange).as_py():
        return ()
    chosen = records.select(["key_type", "log_offset", "key", "value"]).filter(strange)
    return tuple(
        Unknown(
            damage=of_finding(
                "unknown_type",
                f"record type {row['key_type']} is not known to this release: kept raw in table records",
                (row["log_offset"], row["log_offset"]),
                (row["key"] or b"") + (row["value"] or b""),
            ),
            group_id=group_of(row["key"] or b""),
        )
        for row in chosen.to_pylist()
    )
