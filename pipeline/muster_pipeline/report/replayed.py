"""What-if results as the page shows them: the groups with most rebalances, replayed through every assignor."""

import pyarrow as pa

from muster_pipeline.report import limits
from muster_pipeline.report.rebalances import rebalances
from muster_pipeline.report.source import Tables
from muster_pipeline.report.whatif import Alternative, Comparison
from muster_pipeline.store.reader import Root
from muster_pipeline.whatif.compare import compare, skipped, summary


def restless(tables: Tables, most: int = limits.WHATIF_SHOWN_MAX) -> tuple[list[str], int]:
    """(the `most` groups with most rebalances, number of further groups with rebalances)."""
    found = {name: one.count for name, one in rebalances(tables).groups.items() if one.count}
    ranked = sorted(found, key=lambda name: (-found[name], name))
    return ranked[:most], max(0, len(ranked) - most)


def comparisons(root: Root, groups: list[str]) -> list[Comparison]:
    """One for each of `groups` that has a generation to replay, in their order. Raises TablesError."""
    if not groups:
        return []
    found = of_summary(summary(compare(root, groups), skipped(root, groups)))
    place = {name: number for number, name in enumerate(groups)}
    return sorted(found, key=lambda one: place[one.group])


def of_summary(rows: pa.Table) -> list[Comparison]:
    """Rows of `whatif.compare.SUMMARY`, by group."""
    groups: dict[str, list[Alternative]] = {}
    for row in rows.to_pylist():
        count = row["rebalances"]
        timed = row["generations"] - row["stalls_unknown"]
        groups.setdefault(row["group_id"], []).append(
            Alternative(
                assignor=row["assignor"],
                rebalances=count,
                partitions_moved=row["moved"],
                balance_score=row["balance_score_mean"],
                paused_partitions=row["stopped"] / count if count else 0.0,
                stall_ms=None if row["stall_ms"] is None or not timed else row["stall_ms"] // timed,
            )
        )
    return [Comparison(group=name, alternatives=tuple(found)) for name, found in groups.items()]
