"""Balance: how evenly members share a group's partitions, in the last generation and in the one before."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster_pipeline.report import limits
from muster_pipeline.report.source import Tables, rows

_COLUMNS = (
    "group_id", "generation", "log_offset", "members", "members_idle", "partitions", "partitions_min", "partitions_max",
    "balance_score", "is_balanced",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One generation's shares."""

    generation: int
    members: int
    members_idle: int
    partitions: int
    partitions_min: int
    partitions_max: int
    balance_score: int
    is_balanced: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBalance:
    """`before` is None when only one generation is known."""

    group: str
    before: Share | None
    now: Share


def balances(tables: Tables) -> dict[str, GroupBalance]:
    """The last two generations of every group; one pass. Rows of a group are in log order."""
    found: dict[str, GroupBalance] = {}
    for group, generation, _offset, *numbers in rows(tables, "balance", _COLUMNS):
        share = Share(generation=generation, **dict(zip(_COLUMNS[3:], numbers, strict=True)))
        earlier = found.get(group)
        found[group] = GroupBalance(group=group, before=earlier.now if earlier else None, now=share)
    return found


def shown(groups: dict[str, GroupBalance]) -> tuple[Sequence[GroupBalance], int]:
    """The least even ones first, and how many are not shown."""
    ranked = sorted(groups.values(), key=lambda one: (-one.now.balance_score, one.group))
    return ranked[: limits.BALANCE_SHOWN_MAX], max(0, len(ranked) - limits.BALANCE_SHOWN_MAX)
