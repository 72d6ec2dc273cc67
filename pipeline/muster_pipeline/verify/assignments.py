"""I5 and I6: recorded assignments give each partition one owner, and gold counts the moves that silver records."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.verify.finding import Finding, Verdict, verdict

Owners = dict[tuple[str, int], str]


def one_owner(assignments: pa.Table) -> Verdict:
    """I5 for classic groups, within one generation's record. A violation is the group's fault (a faulty assignor).

    KIP-848 groups are not checked: the partitions of a member that leaves are freed without an assignment record.
    """
    findings: list[Finding] = []
    generations: dict[tuple[str, int], Owners] = {}
    chosen = assignments.filter(pc.field("kind") == "assigned")
    for row in chosen.to_pylist():
        place = (row["topic"], row["partition"])
        owners = generations.setdefault((row["group_id"], row["log_offset"]), {})
        before = owners.setdefault(place, row["member_id"])
        if before != row["member_id"]:
            where = f"group {row['group_id']}, generation {row['generation']}, log offset {row['log_offset']}"
            what = f"{row['topic']}-{row['partition']} has owners {before} and {row['member_id']}"
            findings.append(Finding(invariant="I5", where=where, what=what))
    return verdict("I5", chosen.num_rows, findings)


def moves_counted(rebalances: pa.Table, assignments: pa.Table, memberships: pa.Table) -> Verdict:
    """I6 for classic groups: kept, moved, gained and lost equal the difference of the two recorded assignments."""
    owners = _owners(assignments)
    readable = _readable(memberships)
    findings: list[Finding] = []
    before: dict[str, tuple[int, Owners]] = {}
    checked = 0
    for row in rebalances.filter(pc.field("group_kind") == "classic").to_pylist():
        group_id, at = row["group_id"], row["ended_log_offset"]
        after = owners.get((group_id, at), {})
        known = before.get(group_id)
        before[group_id] = (row["generation_to"], after)
        if row["partitions_kept"] is None or (group_id, at) not in readable:
            continue
        if known is not None and known[0] != row["generation_from"]:
            continue
        checked += 1
        expected = _differences(known[1] if known is not None else {}, after)
        told = {name: row[f"partitions_{name}"] for name in expected}
        if told != expected:
            where = f"group {group_id}, generation {row['generation_to']}, log offset {at}"
            findings.append(Finding(invariant="I6", where=where, what=f"told {told}, the assignments say {expected}"))
    return verdict("I6", checked, findings)


def _owners(assignments: pa.Table) -> dict[tuple[str, int], Owners]:
    found: dict[tuple[str, int], Owners] = {}
    for row in assignments.filter(pc.field("kind") == "assigned").to_pylist():
        owner = row["member_id"] if row["instance_id"] is None else row["instance_id"]
        found.setdefault((row["group_id"], row["log_offset"]), {})[row["topic"], row["partition"]] = owner
    return found


def _readable(memberships: pa.Table) -> set[tuple[str, int]]:
    completed = memberships.filter(pc.field("stage") == "completed")
    return set(zip(completed["group_id"].to_pylist(), completed["log_offset"].to_pylist(), strict=True))


def _differences(before: Owners, after: Owners) -> dict[str, Any]:
    both = before.keys() & after.keys()
    kept = sum(before[one] == after[one] for one in both)
    return {
        "kept": kept,
        "moved": len(both) - kept,
        "gained": len(after.keys() - both),
        "lost": len(before.keys() - both),
    }
