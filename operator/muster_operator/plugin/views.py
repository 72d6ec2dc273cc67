"""Objects as rows and lines of text. Pure. Unknown is shown as `Unknown`, an absent value as `-`, never as 0."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, str]

CLUSTER_COLUMNS = ("NAMESPACE", "NAME", "READY", "QUORUM", "VERSION", "REASON")
CLUSTER_WIDE_COLUMNS = ("BOOTSTRAP", "PROGRESSING", "MESSAGE")
GROUP_COLUMNS = ("NAMESPACE", "NAME", "STATE", "READY", "MEMBERS", "LAG", "GENERATION", "STATIC", "COORDINATOR")
GROUP_WIDE_COLUMNS = ("CLUSTER", "GROUP-ID", "PROTOCOL", "LAST-REBALANCE", "CAUSE")
LAG_COLUMNS = ("NAMESPACE", "NAME", "STATE", "LAG", "READ-AT")
LAG_WIDE_COLUMNS = ("PARTITIONS", "UNCOMMITTED", "UNKNOWN", "GROUP-ID")
Paint = Callable[[str, str], str]


def condition(obj: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """A condition of the object; {} if it has none of that type."""
    conditions = obj.get("status", {}).get("conditions", ())
    found: Mapping[str, Any] = next((one for one in conditions if one["type"] == kind), {})
    return found


def _text(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def _of(ready: object, wanted: object) -> str:
    return f"{_text(ready)}/{_text(wanted)}"


def cluster_row(obj: Mapping[str, Any]) -> Row:
    """Columns of a CoordinatorCluster."""
    status, spec, meta = obj.get("status", {}), obj.get("spec", {}), obj["metadata"]
    ready = condition(obj, "Ready")
    return {
        "NAMESPACE": meta["namespace"],
        "NAME": meta["name"],
        "READY": _of(status.get("readyReplicas"), spec.get("replicas")),
        "QUORUM": condition(obj, "QuorumAvailable").get("status", "Unknown"),
        "VERSION": _text(status.get("version")),
        "REASON": _text(ready.get("reason")),
        "BOOTSTRAP": _text((status.get("bootstrapServers") or {}).get("internal")),
        "PROGRESSING": condition(obj, "Progressing").get("status", "Unknown"),
        "MESSAGE": _text(ready.get("message")),
    }


def group_row(obj: Mapping[str, Any]) -> Row:
    """Columns of a ConsumerGroup."""
    status, spec, meta = obj.get("status", {}), obj.get("spec", {}), obj["metadata"]
    wanted = spec.get("replicas") if spec.get("template") or spec.get("workloadRef") else None
    return {
        "NAMESPACE": meta["namespace"],
        "NAME": meta["name"],
        "STATE": status.get("state", "Unknown"),
        "READY": "-" if wanted is None else _of(status.get("readyReplicas"), wanted),
        "MEMBERS": _text(status.get("memberCount")),
        "LAG": status.get("lagText", "Unknown"),
        "GENERATION": _text(status.get("generation")),
        "STATIC": condition(obj, "StaticMembership").get("status", "Unknown"),
        "COORDINATOR": _text(status.get("coordinator")),
        "CLUSTER": _text((spec.get("clusterRef") or {}).get("name") or spec.get("bootstrapServers")),
        "GROUP-ID": _text(spec.get("groupId")),
        "PROTOCOL": _text(status.get("protocol")),
        "LAST-REBALANCE": _text((status.get("lastRebalance") or {}).get("time")),
        "CAUSE": _text((status.get("lastRebalance") or {}).get("cause")),
    }


def lag_row(obj: Mapping[str, Any]) -> Row:
    """A group's lag, and the age of that value."""
    status = obj.get("status", {})
    partitions = status.get("partitions") or {}
    row = group_row(obj)
    return {
        **{column: row[column] for column in ("NAMESPACE", "NAME", "STATE", "LAG", "GROUP-ID")},
        "READ-AT": _text(status.get("lagTime")),
        "PARTITIONS": _text(partitions.get("total")),
        "UNCOMMITTED": _text(partitions.get("uncommitted")),
        "UNKNOWN": _text(partitions.get("unknown")),
    }


def _plain(_: str, text: str) -> str:
    return text


def table(rows: Sequence[Row], columns: Sequence[str], paint: Paint = _plain) -> str:
    """Aligned text below a line of titles; `paint` gets column and padded cell."""
    widths = {column: max(len(column), *(len(row[column]) for row in rows)) for column in columns}
    widths[columns[-1]] = 0  # nothing follows it
    titles = "   ".join(column.ljust(widths[column]) for column in columns)
    lines = ["   ".join(paint(column, row[column].ljust(widths[column])) for column in columns) for row in rows]
    return "\n".join([titles, *lines])


def condition_lines(obj: Mapping[str, Any]) -> Iterable[str]:
    """One line per condition, problems first."""
    conditions = obj.get("status", {}).get("conditions", ())
    for one in sorted(conditions, key=lambda c: (_is_fine(c), c["type"])):
        yield f"  {one['type']:<18} {one['status']:<8} {one.get('reason', ''):<24} {one.get('message', '')}".rstrip()


def _is_fine(one: Mapping[str, Any]) -> bool:
    bad_when_true = {"Degraded", "Progressing", "Paused", "ScalingRefused", "VolumeLost"}
    return bool(one["status"] == ("False" if one["type"] in bad_when_true else "True"))


def describe_group(obj: Mapping[str, Any]) -> str:
    """Everything in the status of a group, members by pod."""
    status, row = obj.get("status", {}), group_row(obj)
    lines = [f"{row['NAMESPACE']}/{row['NAME']}: group {_text(obj['spec'].get('groupId'))}"]
    for title in ("STATE", "GENERATION", "COORDINATOR", "READY", "MEMBERS", "LAG"):
        lines.append(f"  {title.lower():<14} {row[title]}")
    lines.append(f"  {'protocol':<14} {_text(status.get('protocol'))}")
    last = status.get("lastRebalance") or {}
    lines.append(f"  {'last rebalance':<14} {_text(last.get('time'))} {last.get('cause', '')}".rstrip())
    lines += ["", "Conditions", *condition_lines(obj), "", "Members"]
    members = status.get("members", ())
    if members:
        rows = [
            {
                "POD": _text(one.get("pod")),
                "INSTANCE": _text(one.get("instanceId")),
                "CLIENT": _text(one.get("clientId")),
                "HOST": _text(one.get("host")),
                "LAG": _text(one.get("lag")),
                "PARTITIONS": " ".join(one.get("partitions", ())) or "-",
            }
            for one in members
        ]
        lines += [f"  {line}" for line in table(rows, tuple(rows[0])).splitlines()]
        hidden = int(status.get("memberCount") or 0) - len(members)
        if hidden > 0:
            lines.append(f"  and {hidden} more: muster group describe {obj['spec'].get('groupId')} --members")
    else:
        lines.append("  none listed")
    return "\n".join(lines)


def describe_cluster(obj: Mapping[str, Any]) -> str:
    """Everything in the status of a cluster, pod by pod."""
    status, row = obj.get("status", {}), cluster_row(obj)
    lines = [f"{row['NAMESPACE']}/{row['NAME']}: {row['READY']} coordinators ready"]
    for name, address in sorted((status.get("bootstrapServers") or {}).items()):
        lines.append(f"  {name + ' bootstrap':<20} {address}")
    rollout = status.get("rollout")
    if rollout:
        lines.append(f"  {'restarting':<20} {rollout.get('pod')} to {rollout.get('toRevision')}")
    lines += ["", "Conditions", *condition_lines(obj), "", "Pods"]
    rows = [
        {
            "POD": _text(one.get("name")),
            "BROKER": _text(one.get("brokerId")),
            "READY": _text(one.get("ready")),
            "LEADS": _text(one.get("leaderships")),
            "DRAIN": _text(one.get("drainPhase")),
        }
        for one in status.get("members", ())
    ]
    lines += [f"  {line}" for line in table(rows, tuple(rows[0])).splitlines()] if rows else ["  none listed"]
    return "\n".join(lines)
