"""Hypothesis-made logs as rows of `records`, and their way through the fold in any chunks."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from muster_pipeline.decode.consumer_groups import decode_consumer_groups
from muster_pipeline.decode.generations import decode_generations
from muster_pipeline.decode.unknown import decode_unknown
from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS
from muster_pipeline.schemas.records import RECORDS
from muster_pipeline.tables.catalog import DERIVED, TABLES
from muster_pipeline.transforms.fold import GroupDecoders, PartitionFold
from muster_pipeline.transforms.log_end_offsets import LogEndSamples
from muster_pipeline.transforms.settings import FoldSettings

START_MS = 1_700_000_000_000
SETTINGS = FoldSettings(cluster="c", stall_min_ms=90_000)
DECODERS = GroupDecoders(generations=decode_generations, consumer_groups=decode_consumer_groups, unknown=decode_unknown)

Row = dict[str, Any]
BLANK: Row = {field.name: None for field in RECORDS} | {
    "cluster": "c",
    "log_partition": 7,
    "segment_base": 0,
    "batch_base": 0,
    "leader_epoch": 0,
    "timestamp_type": 0,
    "producer_id": -1,
    "producer_epoch": -1,
    "is_transactional": False,
    "is_control": False,
    "is_tombstone": False,
}


def commit(key: tuple[str, str, int], offset: int | None, producer: int = -1, expire_ms: int | None = None) -> Row:
    group, topic, partition = key
    row = {"group_id": group, "topic": topic, "partition": partition, "key_type": 1, "key_version": 1}
    row |= {
        "producer_id": producer,
        "producer_epoch": 0 if producer >= 0 else -1,
        "is_transactional": producer >= 0,
    }
    if offset is None:
        return row | {"is_tombstone": True}
    return row | {
        "committed_offset": offset,
        "metadata": "",
        "value_version": 3,
        "expire_timestamp_ms": expire_ms,
    }


def marker(producer: int, kind: int) -> Row:
    return {"is_control": True, "is_transactional": True, "producer_id": producer, "producer_epoch": 0} | {
        "control_type": kind,
        "key": bytes([0, 0, 0, kind]),
        "value": bytes(6),
    }


def log(events: Sequence[tuple[Row, int, int]]) -> list[Row]:
    """Events (columns, ms after the one before, offsets missing before it) as rows of `records`."""
    rows, at_ms, at = [], START_MS, 100
    for columns, delta_ms, gap in events:
        at_ms, at = at_ms + delta_ms, at + gap
        row = BLANK | {"append_timestamp_ms": at_ms, "log_offset": at} | columns
        if row["committed_offset"] is not None:
            row["commit_timestamp_ms"] = at_ms - 3
        rows.append(row)
        at += 1
    return rows


KEYS = [(group, topic, partition) for group in ("g", "ü:") for topic in ("t", "u") for partition in (0, 1)]
_KEY = st.sampled_from(KEYS)
_OFFSET = st.integers(0, 30)
_EVENT = st.one_of(
    st.builds(commit, _KEY, _OFFSET),
    st.builds(commit, _KEY, st.one_of(st.none(), _OFFSET)),
    st.builds(commit, _KEY, st.one_of(st.none(), _OFFSET, _OFFSET, _OFFSET), st.integers(1, 2)),
    st.builds(marker, st.integers(1, 3), st.integers(0, 1)),
)
_OF_TRANSACTIONS = st.one_of(
    st.builds(commit, st.sampled_from(KEYS[:3]), _OFFSET, st.integers(1, 3)),
    st.builds(marker, st.integers(1, 3), st.just(1)),
    st.builds(marker, st.integers(1, 3), st.integers(0, 1)),
    st.one_of(st.builds(commit, st.sampled_from(KEYS[2:]), _OFFSET), st.builds(commit, _KEY, st.none())),
)
"""Keys of one or several producers, and seldom of others."""
_DELTA = st.one_of(st.integers(0, 5), st.integers(0, 70_000), st.integers(-30_000, 200_000))
_GAP = st.sampled_from([0, 0, 0, 1, 5])
LOGS = st.one_of(
    st.lists(st.tuples(events, _DELTA, _GAP), max_size=60).map(log) for events in (_EVENT, _EVENT, _OF_TRANSACTIONS)
)
TRANSACTIONS = st.lists(st.tuples(_OF_TRANSACTIONS, st.integers(0, 90_000), _GAP), min_size=3, max_size=25).map(log)
SAMPLE = st.tuples(
    st.sampled_from(["t", "u", "other"]),
    st.integers(0, 1),
    st.integers(-100_000, 1_500_000).map(lambda delta: START_MS + delta),
    st.integers(0, 40),
    st.one_of(st.none(), st.integers(0, 10)),
    st.sampled_from([None, None, False, True]),
)
"""Topic, partition, time, log end, log start, whether offsets have gaps; the last may be left out."""
SAMPLE_LISTS = st.lists(SAMPLE, max_size=25)


@st.composite
def cut(draw: Callable[..., Any], rows: list[Row]) -> list[list[Row]]:
    """The rows in chunks, empty ones among them."""
    places = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    return [rows[start:end] for start, end in zip([0, *places], [*places, len(rows)], strict=True)]


def log_end_table(samples: Sequence[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"cluster": "c", "topic": topic, "partition": partition, "sample_timestamp_ms": at}
            | {"end_offset": end, "start_offset": start, "has_gaps": gaps[0] if gaps else None}
            for topic, partition, at, end, start, *gaps in samples
        ],
        schema=LOG_END_OFFSETS,
    )


def records(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=RECORDS)


def fold(
    chunks: Sequence[Sequence[Row]],
    log_ends: pa.Table | None = None,
    settings: FoldSettings = SETTINGS,
    decoders: GroupDecoders = DECODERS,
) -> dict[str, pa.Table]:
    """All derived tables of a log that comes in these chunks."""
    stage = PartitionFold(7, settings, LogEndSamples(log_ends, settings.cluster), decoders)
    parts: dict[str, list[pa.Table]] = {name: [TABLES[name].schema.empty_table()] for name in DERIVED}
    for made in [*(stage.feed(records(chunk)).tables for chunk in chunks), stage.finish()]:
        for name, rows in made.items():
            assert rows.schema == TABLES[name].schema, name
            parts[name].append(rows)
    return {name: pa.concat_tables(tables) for name, tables in parts.items()}
