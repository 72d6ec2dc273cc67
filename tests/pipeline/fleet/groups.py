"""Gold of groups, told record by record: who owned what before and after each rebalance, and how evenly."""

from itertools import combinations
from typing import Any

from tests.pipeline.fleet.reader import CLASSIC, Row, Silver
from tests.pipeline.tables.oracle import Commits, first_appearance

Place = tuple[str, int]
Members = dict[str, Row]
"""Member id to {"identity", "owned": set of (topic or topic id, partition), "topics"}."""


class Gold:
    """rebalances and balance; `classic` and `consumer`: the groups that are left at the log's end."""

    def __init__(self, silver: Silver) -> None:
        self.rebalances: list[Row] = []
        self.balance: list[Row] = []
        self.classic: dict[str, Row] = {}
        self.consumer: dict[str, Row] = {}
        for row, said in silver.said:
            if row["key_type"] in CLASSIC:
                self._classic(row, said)
            else:
                self._consumer(row, said)

    def _classic(self, row: Row, said: Row) -> None:
        group, stage = row["group_id"], said["stage"]
        if stage == "deleted":
            self.classic.pop(group, None)
        if stage in ("deleted", "settled"):
            return
        state = self.classic.setdefault(group, {"view": None, "began": None})
        state |= {"stage": stage, "protocol_type": said["protocol_type"], "since": said["state_timestamp_ms"]}
        if stage == "rebalance":
            state["began"] = state["began"] or (row["log_offset"], said["state_timestamp_ms"])
            return
        if stage == "candidate":
            return
        after = {"number": said["generation"], "protocol": said["protocol"], "members": _classic_members(said)}
        before = state["view"]
        again = before is not None and before["number"] == after["number"]
        is_birth = before is None and not after["members"] and after["number"] == 0
        if not is_birth and not (again and before["members"].keys() == after["members"].keys()):
            self._tell(row, "classic", before, after, state["began"], completed=True)
        state |= {"view": after, "began": None}

    def _consumer(self, row: Row, said: Row) -> None:
        group, kind = row["group_id"], row["key_type"]
        if said["gone"] and (kind == 3 or group not in self.consumer):
            self.consumer.pop(group, None)
            return
        new: Row = {"epoch": 0, "target": -1, "members": {}, "now": {}, "view": None, "began": None}
        state = self.consumer.setdefault(group, new)
        if kind == 3:
            if state["began"]:
                self._consumer_ended(row, state, completed=False)
            state |= {"epoch": said["epoch"], "began": (row["log_offset"], row["append_timestamp_ms"])}
        elif kind in (5, 8):
            column = state["members" if kind == 5 else "now"]
            column.pop(said["member_id"], None) if said["gone"] else column.update({said["member_id"]: said})
        elif kind == 6 and not said["gone"]:
            state["target"] = said["epoch"]
        if state["began"] and self._reached(state):
            self._consumer_ended(row, state, completed=True)

    def _reached(self, state: Row) -> bool:
        here = [state["now"].get(name) for name in state["members"]]
        arrived = all(now and now["epoch"] == state["epoch"] and not now["revoking"] for now in here)
        return not here or (state["target"] >= state["epoch"] and arrived)

    def _consumer_ended(self, row: Row, state: Row, *, completed: bool) -> None:
        members = {}
        for name, said in state["members"].items():
            owned = state["now"].get(name, {"owned": []})["owned"]
            flat = {(topic, number) for topic, numbers in owned for number in numbers}
            members[name] = {"identity": said["instance_id"] or name, "owned": flat}
        after = {"number": state["epoch"], "protocol": None, "members": members}
        self._tell(row, "consumer", state["view"], after, state["began"], completed=completed)
        state |= {"view": after, "began": None}

    def _tell(
        self, row: Row, kind: str, before: Row | None, after: Row, began: tuple[int, int] | None, *, completed: bool
    ) -> None:
        avoided = before is not None and before["number"] == after["number"]
        follows = after["number"] <= 1 if before is None else avoided or after["number"] == before["number"] + 1
        known = before is not None or follows
        old: Members = before["members"] if before else {}
        was, now = owners(old), owners(after["members"])
        came, went = identities(after["members"]) - identities(old), identities(old) - identities(after["members"])
        stays = was.keys() & now.keys()
        started = (row["log_offset"], row["append_timestamp_ms"]) if avoided else began
        told: Row = {
            "group_id": row["group_id"],
            "group_kind": kind,
            "started_log_offset": began[0] if began else None,
            "started_at_ms": started[1] if started else None,
            "ended_at_ms": row["append_timestamp_ms"],
            "ended_log_offset": row["log_offset"],
            "generation_from": before["number"] if before else None,
            "generation_to": after["number"],
            "is_completed": completed,
            "is_avoided": avoided,
            "history_complete": follows,
            "protocol_from": before["protocol"] if before else None,
            "protocol_to": after["protocol"],
            "members_before": len(old) if known else None,
            "members_after": len(after["members"]),
            "members_in": sorted(came) if known else [],
            "members_out": sorted(went),
            "partitions_kept": sum(was[one] == now[one] for one in stays) if known else None,
            "partitions_moved": sum(was[one] != now[one] for one in stays) if known else None,
            "partitions_gained": len(now.keys() - was.keys()) if known else None,
            "partitions_lost": len(was.keys() - now.keys()) if known else None,
        }
        self.rebalances.append(told)
        if completed and after["members"]:
            self.balance.append(_even(told, [len(one["owned"]) for one in after["members"].values()]))


def _classic_members(said: Row) -> Members:
    return {
        one["member_id"]: {
            "identity": one["instance_id"] or one["member_id"],
            "owned": set(one["assigned"]),
            "topics": set(one["subscribed_topics"]),
        }
        for one in said["members"]
    }


def identities(members: Members) -> set[str]:
    return {one["identity"] for one in members.values()}


def owners(members: Members) -> dict[Place, str]:
    return {place: one["identity"] for one in members.values() for place in one["owned"]}


def _even(told: Row, counts: list[int]) -> Row:
    pairs = sum(abs(a - b) for a, b in combinations(counts, 2))
    total: Any = sum(counts)
    return {
        "group_id": told["group_id"],
        "group_kind": told["group_kind"],
        "generation": told["generation_to"],
        "at_ms": told["ended_at_ms"],
        "log_offset": told["ended_log_offset"],
        "members": len(counts),
        "members_idle": counts.count(0),
        "partitions": total,
        "partitions_min": min(counts),
        "partitions_max": max(counts),
        "balance_score": pairs,
        "max_over_mean": max(counts) * len(counts) / total if total else None,
        "gini": pairs / (len(counts) * total) if total else None,
    }


def expiry(rows: list[Row], commits: Commits, gold: Gold, retention_ms: int) -> list[Row]:
    """KIP-211 for every committed offset at the log's end."""
    last: dict[tuple[str, str, int], Row] = {}
    for _, _, key, offset, row in commits.effects:
        if offset is None:
            last.pop(key, None)
        else:
            last[key] = row
    found = []
    for key in first_appearance(rows):
        if key not in last:
            continue
        group, topic, partition = key
        stamp, explicit = last[key]["commit_timestamp_ms"], last[key]["expire_timestamp_ms"]
        kind, state, rule, base = _rule(gold, group, topic, stamp)
        if key in commits.open_keys:
            rule = "pending_transaction"
        if rule in ("subscribed", "rebalancing", "pending_transaction"):
            base, explicit = None, None
        elif explicit is not None:
            rule, base = "explicit", None
        found.append(
            {"group_id": group, "topic": topic, "partition": partition, "rule": rule}
            | {"committed_offset": last[key]["committed_offset"], "commit_timestamp_ms": stamp}
            | {"group_kind": kind, "group_state": state, "base_timestamp_ms": base}
            | {"retention_ms": None if base is None else retention_ms}
            | {"expires_at_ms": explicit if base is None else base + retention_ms}
        )
    return found


def _rule(gold: Gold, group: str, topic: str, stamp: int) -> tuple[str, str, str, int | None]:
    """Kind, state, rule, and the time from which retention counts."""
    if group in gold.classic:
        known = gold.classic[group]
        names = {"rebalance": "preparing", "candidate": "completing", "completed": "stable", "empty": "empty"}
        state = names[known["stage"]]
        if state == "empty":
            return "classic", state, "empty_group", known["since"]
        if state != "stable":
            return "classic", state, "rebalancing", None
        subscribes = any(topic in one["topics"] for one in known["view"]["members"].values())
        return "classic", state, "subscribed" if subscribes else "not_subscribed", stamp
    if group in gold.consumer:
        members = gold.consumer[group]["members"].values()
        subscribes = any(topic in one["subscribed_topics"] for one in members)
        return "consumer", "stable" if members else "empty", "subscribed" if subscribes else "not_subscribed", stamp
    return "simple", "simple", "simple_group", stamp
