"""Rows of gold `balance`: how evenly one generation shares its partitions.

Score and "balanced" are those of Kafka's sticky assignors: the sum over pairs of the difference in partitions, and
whether a partition could move to a member with at least two fewer. The Gini coefficient is the score by its maximum.
"""

from collections.abc import Sequence
from typing import Any

from muster_pipeline.transforms.group_view import HistoricGroup


def score(counts: Sequence[int]) -> int:
    """Sum over pairs of members of the difference of their counts."""
    ordered = sorted(counts)
    size = len(ordered)
    return sum(count * (2 * place - size + 1) for place, count in enumerate(ordered))


def is_balanced(view: HistoricGroup, *, by_topic_name: bool) -> bool | None:
    """None if a subscription or an assignment is not known, or (not `by_topic_name`) they name topics differently."""
    members = view.members.values()
    if not by_topic_name or any(member.topics is None or member.assigned is None for member in members):
        return None
    fewest: dict[str, int] = {}
    for member in members:
        count = len(member.assigned or ())
        for topic in member.topics or ():
            fewest[topic] = min(count, fewest.get(topic, count))
    return all(
        fewest.get(topic, len(member.assigned or ())) > len(member.assigned or ()) - 2
        for member in members
        for topic in {topic for topic, _ in member.assigned or ()}
    )


def measures(counts: Sequence[int]) -> dict[str, Any]:
    """The figures of partitions a member; `counts` is not empty."""
    total, pairs = sum(counts), score(counts)
    return {
        "members": len(counts),
        "members_idle": sum(count == 0 for count in counts),
        "partitions": total,
        "partitions_min": min(counts),
        "partitions_max": max(counts),
        "balance_score": pairs,
        "max_over_mean": max(counts) * len(counts) / total if total else None,
        "gini": pairs / (len(counts) * total) if total else None,
    }


def row(group_id: str, kind: str, view: HistoricGroup, at_ms: int, log_offset: int) -> dict[str, Any] | None:
    """None without members, or if an assignment is not readable. Everything but `cluster` and `log_partition`."""
    assigned = [member.assigned for member in view.members.values()]
    if not assigned or any(one is None for one in assigned):
        return None
    return {
        "group_id": group_id,
        "group_kind": kind,
        "generation": view.generation,
        "at_ms": at_ms,
        "log_offset": log_offset,
        **measures([len(one) for one in assigned if one is not None]),
        "is_balanced": is_balanced(view, by_topic_name=kind == "classic"),
    }
