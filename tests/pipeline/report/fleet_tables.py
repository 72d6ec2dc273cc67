"""A small fleet as gold tables: hostile names, unknowns, and one group of each trouble."""

from typing import Any

import pyarrow as pa
from muster_pipeline.report.source import InMemory
from muster_pipeline.tables.catalog import TABLES

START_MS = 1_750_000_000_000 // 86_400_000 * 86_400_000
HOSTILE = "<script>alert('x')</script>\"&' ünï:côde " + "long" * 30
_ZERO = {"string": "", "bool": False, "double": 0.0}


def table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows over defaults for what a test does not care about."""
    schema = TABLES[name].schema
    assert all(row.keys() <= set(schema.names) for row in rows), name
    defaults = {
        field.name: None if field.nullable else [] if pa.types.is_list(field.type) else _ZERO.get(str(field.type), 0)
        for field in schema
    }
    return pa.Table.from_pylist([{**defaults, **row} for row in rows], schema=schema)


def lag_rows(group: str, lags: list[int | None], *, partition: int = 0, quality: str = "exact") -> list[dict[str, Any]]:
    """One row a minute."""
    return [
        {
            "group_id": group, "topic": "orders", "partition": partition, "minute_ms": START_MS + 60_000 * i,
            "at_ms": START_MS + 60_000 * i + 30_000, "committed_offset": 100 + i, "lag": lag,
            "quality": quality if lag is not None else "unknown", "detail": "sampled",
        }
        for i, lag in enumerate(lags)
    ]  # fmt: skip


def expiry_rows(lag: list[dict[str, Any]], state: str = "stable") -> list[dict[str, Any]]:
    """A committed offset at the end of the log for each partition of these rows."""
    rule = "empty_group" if state == "empty" else "subscribed"
    return [
        {"group_id": group, "topic": topic, "partition": partition, "group_state": state, "rule": rule,
         "commit_timestamp_ms": START_MS}
        for group, topic, partition in dict.fromkeys((one["group_id"], one["topic"], one["partition"]) for one in lag)
    ]  # fmt: skip


def rebalance(group: str, minute: int, to: int, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group, "group_kind": "classic", "ended_at_ms": START_MS + 60_000 * minute,
        "generation_from": to - 1, "generation_to": to, "trigger": "join", "evidence": "one member more",
        "members_after": 2, "members_in": ["m-2"], "partitions_moved": 3, "partitions_kept": 5,
        "duration_class": "bounded",
        "duration_min_ms": 100, "duration_max_ms": 3_000, "is_completed": True, "history_complete": True, **more,
    }  # fmt: skip


def balance(group: str, generation: int, low: int, high: int, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group, "group_kind": "classic", "generation": generation, "log_offset": generation, "members": 2,
        "partitions": low + high, "partitions_min": low, "partitions_max": high, "balance_score": high - low,
        "is_balanced": high - low < 2, **more,
    }  # fmt: skip


def status(group: str, word: str, minute: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group, "topic": "orders", "status": word,
        "since_ms": None if minute is None else START_MS + 60_000 * minute, "committed_offset": 100,
        "committed_ms": START_MS, "lag": 10, "sampled_ms": START_MS + 300_000, "commits": 10, **more,
    }  # fmt: skip


def membership(group: str, at: int, member: str, stage: str = "completed", **more: Any) -> dict[str, Any]:
    return {
        "group_id": group, "group_kind": "classic", "log_offset": at, "stage": stage, "member_id": member,
        "client_host": "/10.0.0.7", "client_id": "shop", **more,
    }  # fmt: skip


def assignment(group: str, at: int, member: str, partition: int, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group, "group_kind": "classic", "log_offset": at, "kind": "assigned", "member_id": member,
        "topic": "orders", "partition": partition, **more,
    }  # fmt: skip


def statuses() -> list[dict[str, Any]]:
    """A row of each status."""
    rates = {"read_per_s": 10.0, "written_per_s": 4.0}
    return [
        status("slow", "STOP", 4, lag=1_200, **rates),
        status("slow", "WARN", 1, partition=1, lag=10, drained_in_ms=90_000, lost_in_ms=7_200_000, **rates),
        status("lost", "TRUNCATED", 3, lag=5),
        status(HOSTILE, "REWIND", 2),
        status("stuck", "STALL", 2, lag=4),
        status("idle", "EXPIRING", 0, lag=0),
        status("blind", "UNKNOWN", lag=None, sampled_ms=None),
        status("gone", "ABANDONED", 0),
        status("half", "OK", lag=0),
    ]


def fleet() -> InMemory:
    """Groups `slow` (behind and stalled), `lost` (below the log start), `blind` (unknown lag), `idle`, and HOSTILE."""
    lag = [
        *lag_rows("slow", [0, 50, 400, 900, 1_200]),
        *lag_rows("slow", [10, 10, 10, 10, 10], partition=1),
        *lag_rows("blind", [None, None]),
        *lag_rows("half", [7, 7]),
        *lag_rows("half", [None], partition=1),
        *lag_rows(HOSTILE, [1, 2, 3]),
        {**lag_rows("lost", [5])[0], "is_below_start": True},
    ]
    rates = [
        {"group_id": g, "topic": "orders", "commits": 10, "messages": 5_000, "rewinds": 1, "minute_ms": START_MS}
        for g in ("slow", "lost", HOSTILE)
    ]
    moves = [
        rebalance("slow", 1, 2),
        rebalance("slow", 2, 2, is_avoided=True, trigger="static_replace", members_in=[], generation_from=2),
        rebalance(
            "slow", 4, 7, trigger="session_timeout", members_in=[], members_out=["m-1"], history_complete=False,
            partitions_moved=None, duration_class="unknown", duration_min_ms=None, duration_max_ms=None,
        ),
        rebalance(HOSTILE, 3, 1, generation_from=None, trigger="first", members_in=[HOSTILE]),
    ]  # fmt: skip
    stalled = {"group_id": "slow", "topic": "orders", "started_at_ms": START_MS, "duration_ms": 240_000}
    files = [
        {"file": "a.log", "records": 90, "bytes_in": 1_000, "bytes_decoded": 900, "bytes_quarantined": 60,
         "bytes_pending": 40, "records_quarantined": 1, "offsets_missing": 10}
    ]  # fmt: skip
    damages = [
        {"file": "a.log", "scope": "bytes", "reason": "crc", "detail": HOSTILE, "byte_from": 900, "byte_count": 60}
    ]
    expiry = [
        {"group_id": "idle", "topic": "orders", "partition": i, "committed_offset": 9, "group_state": "empty",
         "rule": "empty_group", "expires_at_ms": START_MS + 86_400_000 * (i + 1)}
        for i in range(3)
    ] + expiry_rows(lag)  # fmt: skip
    return InMemory(
        {
            "partition_status": table("partition_status", statuses()),
            "memberships": table("memberships", [membership("slow", 7, f"m-{i}", instance_id="pod-0") for i in (1, 2)]),
            "assignments": table("assignments", [assignment("slow", 7, "m-1", 0), assignment("slow", 2, "m-9", 1)]),
            "files": table("files", files),
            "quarantine": table("quarantine", damages),
            "lag": table("lag", lag),
            "commit_rate": table("commit_rate", rates),
            "rebalances": table("rebalances", moves),
            "stalls": table(
                "stalls",
                [
                    {**stalled, "ended_by": "log_end", "evidence": "behind"},
                    {**stalled, "partition": 1, "ended_by": "log_end", "evidence": "nothing_to_read"},
                    {
                        **stalled,
                        "partition": 2,
                        "ended_at_ms": START_MS + 1,
                        "ended_by": "advance",
                        "evidence": "unknown",
                    },
                ],
            ),
            "balance": table("balance", [balance("slow", 2, 4, 4), balance("slow", 7, 1, 7, members_idle=1)]),
            "expiry": table("expiry", expiry),
        }
    )
