"""The comparison: all assignors side by side, from published tables."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from muster_coordinator.groups.assignors.registry import ASSIGNORS, assignor

from muster_pipeline.schemas.columns import optional, required, schema
from muster_pipeline.schemas.history import LOWER_BOUND, historic
from muster_pipeline.store import reader
from muster_pipeline.store.reader import Root
from muster_pipeline.whatif.history import History, histories
from muster_pipeline.whatif.replay import Outcome, recorded, replay

OUTCOMES: Final = schema(
    (
        required("group_id", pa.string(), "group"),
        required("assignor", pa.string(), "'recorded' for what happened, else Kafka's name of the replayed assignor"),
        required("generation", pa.int32(), "recorded generation whose members were assigned"),
        required("at_ms", pa.int64(), "when it was completed, ms since 1970"),
        required("members", pa.int32(), "members"),
        required("partitions", pa.int32(), "partitions that have an owner afterwards"),
        required("rebalances", pa.int32(), "rebalances until nothing changes: cooperative ones may need two"),
        required("moved", pa.int32(), "partitions owned before and after, by another member"),
        required("kept", pa.int32(), "partitions owned before and after by the same member"),
        required("gained", pa.int32(), "partitions without owner before"),
        required("lost", pa.int32(), "partitions without owner afterwards"),
        required("stopped", pa.int32(), "partitions that stood still, counted once a rebalance"),
        optional(
            "stall_ms",
            pa.int64(),
            "stopped times the recorded rebalance's duration (exact, else its upper bound), partition-milliseconds; "
            "null if the log gives no bound",
        ),
        required("balance_score", pa.int64(), "as in table balance"),
        required("partitions_max", pa.int32(), "of the member that has most"),
        required("partitions_min", pa.int32(), "of the member that has fewest"),
    ),
    comment="one recorded generation under one assignor",
)

SUMMARY: Final = schema(
    (
        required("group_id", pa.string(), "group"),
        required("assignor", pa.string(), "'recorded' or the replayed assignor"),
        required("generations", pa.int32(), historic("generations compared", LOWER_BOUND)),
        required("skipped", pa.int32(), "generations left out: a subscription is not readable"),
        required("rebalances", pa.int32(), historic("sum", LOWER_BOUND)),
        required("moved", pa.int64(), historic("sum", LOWER_BOUND)),
        required("stopped", pa.int64(), historic("sum", LOWER_BOUND)),
        optional("stall_ms", pa.int64(), "sum over generations with a known duration; null if there is none"),
        required("stalls_unknown", pa.int32(), "generations without a known duration, not in stall_ms"),
        required("balance_score_mean", pa.float64(), "mean over generations; 0 is perfect"),
        required("spread_max", pa.int32(), "largest difference between most and fewest partitions of a member"),
    ),
    comment="one group under one assignor",
)


def compare(
    root: Root,
    groups: Sequence[str] | None = None,
    assignors: Sequence[str] = tuple(ASSIGNORS),
    partition_counts: Mapping[str, int] | None = None,
) -> pa.Table:
    """Rows of OUTCOMES for classic groups (all if None), by group, then 'recorded' and `assignors` in that order.

    Raises UnknownAssignor, TablesError.
    """
    chosen = [assignor(name) for name in assignors]
    where = None if groups is None else pc.field("group_id").isin(list(groups))
    memberships, assignments, rebalances = (
        reader.read(name, root, where=where) for name in ("memberships", "assignments", "rebalances")
    )
    durations = _durations(rebalances)
    cooperative = _offsets(rebalances, "protocol_to", {name for name, one in ASSIGNORS.items() if one.cooperative})
    avoided = _offsets(rebalances, "is_avoided", {True})
    followups = _offsets(rebalances, "trigger", {"cooperative_followup"})
    found: list[Outcome] = []
    for history in histories(memberships, assignments, partition_counts):
        known = durations.get(history.group_id, {})
        history = history.without(avoided.get(history.group_id, ()))
        found += recorded(history, known, cooperative.get(history.group_id, ()))
        replayed = history.without(followups.get(history.group_id, ()))
        for one in chosen:
            found += replay(replayed, one, known)
    return pa.Table.from_pylist([asdict(one) for one in found], schema=OUTCOMES)


def skipped(root: Root, groups: Sequence[str] | None = None) -> dict[str, int]:
    """Generations of each group that cannot be replayed."""
    where = None if groups is None else pc.field("group_id").isin(list(groups))
    found = histories(reader.read("memberships", root, where=where), reader.read("assignments", root, where=where))
    return {history.group_id: history.skipped for history in found}


def summary(outcomes: pa.Table, skipped: Mapping[str, int]) -> pa.Table:
    """Rows of SUMMARY, in the order of `outcomes`."""
    found: dict[tuple[str, str], list[dict[str, int | None]]] = {}
    for row in outcomes.to_pylist():
        found.setdefault((row["group_id"], row["assignor"]), []).append(row)
    rows = []
    for (group_id, name), steps in found.items():
        stalls = [step["stall_ms"] for step in steps if step["stall_ms"] is not None]
        rows.append(
            {
                "group_id": group_id,
                "assignor": name,
                "generations": len(steps),
                "skipped": skipped.get(group_id, 0),
                **{key: sum(step[key] or 0 for step in steps) for key in ("rebalances", "moved", "stopped")},
                "stall_ms": sum(stalls) if stalls else None,
                "stalls_unknown": len(steps) - len(stalls),
                "balance_score_mean": sum(step["balance_score"] or 0 for step in steps) / len(steps),
                "spread_max": max((step["partitions_max"] or 0) - (step["partitions_min"] or 0) for step in steps),
            }
        )
    return pa.Table.from_pylist(rows, schema=SUMMARY)


def _durations(rebalances: pa.Table) -> dict[str, dict[int, int]]:
    """Exact duration of each recorded rebalance, else its upper bound."""
    found: dict[str, dict[int, int]] = {}
    for row in rebalances.select(["group_id", "ended_log_offset", "duration_ms", "duration_max_ms"]).to_pylist():
        took = row["duration_ms"] if row["duration_ms"] is not None else row["duration_max_ms"]
        if took is not None:
            found.setdefault(row["group_id"], {})[row["ended_log_offset"]] = took
    return found


def _offsets(rebalances: pa.Table, column: str, values: Collection[str | bool]) -> dict[str, set[int]]:
    """Group -> log offsets at which rebalances with one of these values were completed."""
    found: dict[str, set[int]] = {}
    for row in rebalances.select(["group_id", "ended_log_offset", column]).to_pylist():
        if row[column] in values:
            found.setdefault(row["group_id"], set()).add(row["ended_log_offset"])
    return found


__all__ = ["OUTCOMES", "SUMMARY", "History", "compare", "skipped", "summary"]
