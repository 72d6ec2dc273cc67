"""One JSON document per group, small enough for a Kubernetes object's status (`limits.STATUS_BYTES_MAX`)."""

import json
from typing import Any

from muster_pipeline.report import limits
from muster_pipeline.report.lag import GroupLag
from muster_pipeline.report.page import Report
from muster_pipeline.report.standing import DELETED, EMPTY


def group_status(report: Report, group: str) -> bytes:
    """The report on `group` as JSON; null is unknown. Of its partitions only those furthest behind, as many as fit."""
    left = report.left.get(group)
    lag = report.lag.get(group, GroupLag()) if left is None else left.lag
    is_deleted = left is not None and left.why == DELETED
    moved = report.rebalances.groups.get(group)
    share = report.balance.get(group)
    last = moved.last if moved else None
    trouble = report.troubles.groups.get(group)
    need = report.capacity.get(group)
    document: dict[str, Any] = {
        "cluster": report.about.cluster,
        "group": group,
        "run": report.about.run,
        "state": DELETED if is_deleted else report.calendar.states.get(group),
        "left": None if left is None else left.why,
        "status": "DELETED" if is_deleted else trouble.status if trouble else None,
        "statusSinceMs": trouble.since_ms if trouble else None,
        "partitionsByStatus": dict(sorted(trouble.statuses.items())) if trouble else {},
        "lag": lag.total,
        "lagQuality": lag.quality if lag.partitions else None,
        "partitions": len(lag.partitions),
        "partitionsBelowLogStart": lag.below_start,
        "openStalls": 0 if left else report.stalls.open_by_group.get(group, 0),
        "members": 0 if left and left.why in (DELETED, EMPTY) else moved.members if moved else None,
        "rebalances": moved.count if moved else 0,
        "rebalancesAvoided": moved.avoided if moved else 0,
        "lastRebalance": None
        if last is None
        else {
            "atMs": last.ended_at_ms,
            "generation": last.generation_to,
            "trigger": last.trigger,
            "evidence": last.evidence[:200],
            "durationMs": last.duration_ms,
            "durationClass": last.duration_class,
        },
        "consumersNeeded": need.needed if need else None,
        "consumersNeededToDrain": need.needed_to_drain if need else None,
        "membersIdle": share.now.members_idle if share and not left else None,
        "balanceScore": share.now.balance_score if share else None,
        "worstPartitions": [],
    }
    worst = sorted(lag.partitions.values(), key=lambda p: (p.lag is not None, -(p.lag or 0), p.topic, p.partition))
    rows = [
        {
            "topic": p.topic,
            "partition": p.partition,
            "committed": p.committed_offset,
            "lag": p.lag,
            "quality": p.quality,
        }
        for p in worst
    ]
    keep = len(rows)
    while True:
        document["worstPartitions"] = rows[:keep]
        encoded = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        if len(encoded) <= limits.STATUS_BYTES_MAX or keep == 0:
            return encoded
        keep //= 2
