"""Gold of groups, told record by record: who owned what before and after each rebalance, and how evenly.

When an epoch has been reached is Kafka's own rule: ConsumerGroup.maybeUpdateGroupState (and StreamsGroup's) calls a
group STABLE if its target assignment is not older than its epoch and ModernGroupMember.isReconciledTo holds for every
member: MemberState.STABLE, and at the epoch of the target. Of a share group (ShareGroup) no other state than EMPTY and
STABLE is told. Groups are born with epoch 1 that is not logged from Kafka 4.3 on (ModernGroup's constructor; the same
release that writes AssignmentTimestamp), so that 2 is the first there.
"""

from itertools import combinations
from typing import Any

from tests.pipeline.fleet.reader import CLASSIC, EPOCH, MEMBER, NOW, TARGET_EPOCH, TOPOLOGY, Row, Silver, kind_of
from tests.pipeline.tables.oracle import Commits, first_appearance

Place = tuple[str, int]
Members = dict[str, Row]
"""Member id to {"identity", "owned": set of (topic or topic id, partition), "topics"}."""


class Gold:
    """rebalances and balance; `classic` and `served`: the groups that are left at the log's end; `unread`: those of
    which a record is not readable. `times`: log offset to the time of a record whose own is wrong."""

    def __init__(self, silver: Silver, times: dict[int, int] | None = None) -> None:
        self.rebalances: list[Row] = []
        self.balance: list[Row] = []
        self.classic: dict[str, Row] = {}
        self.served: dict[str, Row] = {}
        self.unread: dict[str, int] = dict(silver.unread)
        self._times = times or {}
        for row, said in silver.said:
            ends = row["key_type"] == 2 or (row["key_type"] in EPOCH and said["gone"])
            if ends and self.unread.get(row["group_id"], row["log_offset"]) < row["log_offset"]:
                del self.unread[row["group_id"]]
            if row["key_type"] in CLASSIC:
                self._classic(row, said)
            else:
                self._served(row, said)

    def _time(self, row: Row) -> int:
        return int(self._times.get(row["log_offset"], row["append_timestamp_ms"]))

    def _classic(self, row: Row, said: Row) -> None:
        group, stage = row["group_id"], said["stage"]
        if stage == "deleted":
            self.classic.pop(group, None)
        if stage in ("deleted", "settled"):
            return
        state = self.classic.setdefault(group, {"view": None, "began": None})
        wrong = row["log_offset"] in self._times
        state["wrong"] = state.get("wrong", False) or wrong
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
            after["timed"] = not state["wrong"]
            self._tell(row, "classic", before, after, state["began"], completed=True)
        state |= {"view": after, "began": None, "wrong": wrong}

    def _served(self, row: Row, said: Row) -> None:
        group, kind = row["group_id"], row["key_type"]
        if said["gone"] and (kind in EPOCH or group not in self.served):
            self.served.pop(group, None)
            return
        new: Row = {
            "kind": kind_of(kind),
            "epoch": 0,
            "target": -1,
            "members": {},
            "now": {},
            "view": None,
            "began": None,
        }
        new |= {"timed": True, "stamped": False, "one": False, "topology": None, "validated": None}
        state = self.served.setdefault(group, new)
        if kind in EPOCH:
            if state["began"]:
                self._served_ended(row, state, completed=False)
            state |= {"epoch": said["epoch"], "began": (row["log_offset"], self._time(row))}
            state |= {"validated": said["validated"], "timed": True}
        elif kind in (*MEMBER, *NOW):
            column = state["members" if kind in MEMBER else "now"]
            column.pop(said["member_id"], None) if said["gone"] else column.update({said["member_id"]: said})
        elif kind in TARGET_EPOCH and not said["gone"]:
            state["target"] = said["epoch"]
            state["stamped"] = state["stamped"] or said["is_stamped"]
        elif kind in TOPOLOGY:
            state["topology"] = None if said["gone"] else said
        state["timed"] = state["timed"] and row["log_offset"] not in self._times
        told_one = kind in (*EPOCH, *TARGET_EPOCH, *NOW) and said.get("epoch") == 1
        state["one"] = state["one"] or (told_one and (kind not in NOW or bool(said["owned"])))
        leaves = said["gone"] and state["members"]
        if state["began"] and not leaves and self.reached(state):
            self._served_ended(row, state, completed=True)

    @staticmethod
    def reached(state: Row) -> bool:
        here = [state["now"].get(name) for name in state["members"]]
        stable = all(now and now["state"] == 0 and now["epoch"] == state["target"] for now in here)
        return not here or (state["target"] >= state["epoch"] and stable)

    def _served_ended(self, row: Row, state: Row, *, completed: bool) -> None:
        members = {}
        for name, said in state["members"].items():
            owned = state["now"].get(name, {"owned": []})["owned"]
            flat = {(topic, number) for topic, numbers in owned for number in numbers}
            members[name] = {"identity": said["instance_id"] or name, "owned": flat}
        after = {"number": state["epoch"], "protocol": None, "members": members}
        after["timed"] = state["timed"] and row["log_offset"] not in self._times
        after["first"] = 2 if state["stamped"] and not state["one"] and members else 1
        self._tell(row, state["kind"], state["view"], after, state["began"], completed=completed)
        state |= {"view": after, "began": None}

    def _tell(
        self, row: Row, kind: str, before: Row | None, after: Row, began: tuple[int, int] | None, *, completed: bool
    ) -> None:
        avoided = before is not None and before["number"] == after["number"]
        follows = (
            after["number"] <= after.get("first", 1)
            if before is None
            else avoided or after["number"] == before["number"] + 1
        )
        known = before is not None or follows
        counted = known and kind != "share"
        old: Members = before["members"] if before else {}
        was, now = owners(old), owners(after["members"])
        came, went = identities(after["members"]) - identities(old), identities(old) - identities(after["members"])
        stays = was.keys() & now.keys()
        started = (row["log_offset"], self._time(row)) if avoided else began
        told: Row = {
            "group_id": row["group_id"],
            "group_kind": kind,
            "started_log_offset": began[0] if began else None,
            "started_at_ms": started[1] if started and after["timed"] else None,
            "ended_at_ms": self._time(row),
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
            "partitions_kept": sum(was[one] == now[one] for one in stays) if counted else None,
            "partitions_moved": sum(was[one] != now[one] for one in stays) if counted else None,
            "partitions_gained": len(now.keys() - was.keys()) if counted else None,
            "partitions_lost": len(was.keys() - now.keys()) if counted else None,
        }
        self.rebalances.append(told)
        if completed and after["members"] and kind != "share":
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
        if rule in ("subscribed", "rebalancing", "pending_transaction", "unknown", "not_consumer"):
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
    if group in gold.unread:
        return "unknown", "unknown", "unknown", None
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
    if group in gold.served:
        known = gold.served[group]
        if known["kind"] == "share":
            return "share", "stable" if known["members"] else "empty", "not_consumer", None
        names = [one["subscribed_topics"] for one in known["members"].values()]
        if known["kind"] == "streams":
            names = [known["topology"]["topics"]] if known["topology"] and known["members"] else []
        rule = "subscribed" if any(topic in one for one in names) else "not_subscribed"
        return known["kind"], _state(known), rule, stamp
    return "simple", "simple", "simple_group", stamp


def _state(known: Row) -> str:
    """ConsumerGroup.maybeUpdateGroupState, StreamsGroup.maybeUpdateGroupState."""
    if not known["members"]:
        return "empty"
    topology = known["topology"]
    if known["kind"] == "streams" and (topology is None or known["validated"] not in (None, topology["number"])):
        return "not_ready"
    if known["epoch"] > known["target"]:
        return "assigning"
    return "stable" if Gold.reached(known) else "reconciling"
