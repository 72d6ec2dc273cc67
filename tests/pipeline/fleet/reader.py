"""Group records read one after another: what each says, and the silver rows it stands for. Nothing of the product.

`rows` are dictionaries with the columns of `records`, from tests.pipeline.oracle. `Silver` also keeps what gold needs.
"""

import base64
import struct
from collections.abc import Iterator
from typing import Any

from tests.pipeline.oracle import Bytes

Row = dict[str, Any]
CLASSIC = (2, 1000, 1001)
CONSUMER = (3, 4, 5, 6, 7, 8, 16)


class Value(Bytes):
    """A cursor with the strings and arrays of both encodings."""

    def classic(self) -> str | None:
        size = self.number("h")
        return None if size < 0 else self.take(size).decode()

    def compact(self) -> str | None:
        size = self.uvarint()
        return None if size == 0 else self.take(size - 1).decode()

    def blob(self) -> bytes:
        return self.take(self.uvarint() - 1)

    def tags(self) -> dict[int, bytes]:
        return {self.uvarint(): self.take(self.uvarint()) for _ in range(self.uvarint())}

    def ids(self) -> list[tuple[str, list[int]]]:
        found = []
        for _ in range(self.uvarint() - 1):
            topic_id = base64.urlsafe_b64encode(self.take(16)).decode().rstrip("=")
            found.append((topic_id, [self.number("i") for _ in range(self.uvarint() - 1)]))
            self.tags()
        return found


def subscribed(data: bytes) -> list[str]:
    value = Value(data)
    value.number("h")
    return [value.text() for _ in range(value.number("i"))]


def assigned(data: bytes) -> list[tuple[str, int]]:
    if not data:
        return []
    value = Value(data)
    value.number("h")
    found = []
    for _ in range(value.number("i")):
        topic = value.text()
        found += [(topic, value.number("i")) for _ in range(value.number("i"))]
    return found


def classic(row: Row) -> Row:
    """What a record of type 2, 1000 or 1001 says."""
    kind, value = row["key_type"], row["value"]
    if value is None:
        return {"stage": "deleted" if kind == 2 else "settled", "members": None}
    data = Value(value)
    version = data.number("h")
    if kind == 2:
        assert version == 3
        said: Row = {"protocol_type": data.classic(), "generation": data.number("i"), "protocol": data.classic()}
        said |= {"leader": data.classic(), "state_timestamp_ms": data.number("q")}
        said["members"] = [_member(data) for _ in range(data.number("i"))]
        return said | {"stage": "completed" if said["members"] else "empty"}
    said = {"protocol_type": data.compact(), "generation": data.number("i"), "protocol": data.compact()}
    said |= {"leader": data.compact(), "state_timestamp_ms": data.number("q")}
    said["members"] = [_own_member(data) for _ in range(data.uvarint() - 1)]
    said["stage"] = "candidate"
    if kind == 1001:
        said |= {"stage": "rebalance", "reason": data.compact()}
    return said


def _member(data: Value) -> Row:
    names = ("member_id", "instance_id", "client_id", "client_host")
    row: Row = {name: data.classic() for name in names}
    row |= {"rebalance_timeout_ms": data.number("i"), "session_timeout_ms": data.number("i")}
    row["subscribed_topics"] = subscribed(data.take(data.number("i")))
    return row | {"assigned": assigned(data.take(data.number("i")))}


def _own_member(data: Value) -> Row:
    names = ("member_id", "instance_id", "client_id", "client_host")
    row: Row = {name: data.compact() for name in names}
    row |= {"rebalance_timeout_ms": data.number("i"), "session_timeout_ms": data.number("i")}
    ((_, metadata),) = [(data.compact(), data.blob()) for _ in range(data.uvarint() - 1)]
    row |= {"subscribed_topics": subscribed(metadata), "assigned": assigned(data.blob())}
    data.tags()
    return row


def consumer(row: Row) -> Row:
    """What a record of types 3 to 8 says; of a tombstone: whom it is about."""
    kind, value = row["key_type"], row["value"]
    key = Bytes(row["key"][2:])
    key.text()
    said: Row = {"gone": value is None}
    if kind in (5, 7, 8):
        said["member_id"] = key.text()
    if value is None:
        return said
    data = Value(value)
    assert data.number("h") == 0
    if kind in (3, 6):
        return said | {"epoch": data.number("i")}
    if kind == 4:
        return said | {"names": list(_named(data))}
    if kind == 5:
        return said | _consumer_member(data)
    if kind == 7:
        return said | {"owned": data.ids()}
    said |= {"epoch": data.number("i"), "previous": data.number("i"), "state": data.number("b")}
    return said | {"owned": data.ids(), "revoking": data.ids()}


def _named(data: Value) -> Iterator[tuple[str, str]]:
    for _ in range(data.uvarint() - 1):
        topic_id = base64.urlsafe_b64encode(data.take(16)).decode().rstrip("=")
        yield topic_id, data.compact() or ""
        data.take(4 + struct.calcsize("bb"))


def _consumer_member(data: Value) -> Row:
    row: Row = {name: data.compact() for name in ("instance_id", "rack_id", "client_id", "client_host")}
    row["subscribed_topics"] = sorted(data.compact() or "" for _ in range(data.uvarint() - 1))
    assert data.compact() == "", "this reader knows no expressions"
    return row | {"rebalance_timeout_ms": data.number("i")}


class Silver:
    """generations, memberships, assignments; `said`: (row, what it says) of every group record, in order."""

    def __init__(self, rows: list[Row]) -> None:
        self.generations: list[Row] = []
        self.memberships: list[Row] = []
        self.assignments: list[Row] = []
        self.said: list[tuple[Row, Row]] = []
        self._names: dict[str, str] = {}
        self._groups: dict[str, Row] = {}
        for row in rows:
            if row["key_type"] in CLASSIC:
                self.said.append((row, classic(row)))
                self._classic(*self.said[-1])
            elif row["key_type"] in CONSUMER:
                self.said.append((row, consumer(row)))
                self._consumer(*self.said[-1])
            elif row["topic_id"] is not None:
                self._names.setdefault(row["topic_id"], row["topic"])

    def _classic(self, row: Row, said: Row) -> None:
        place = _place(row, "classic")
        members = said["members"]
        names = ("stage", "generation", "protocol_type", "protocol", "leader", "state_timestamp_ms", "reason")
        count = None if members is None else len(members)
        self.generations.append(place | {name: said.get(name) for name in names} | _count(row, count))
        if said["stage"] not in ("completed", "candidate", "rebalance"):
            return
        place |= {"generation": said["generation"]}
        for one in members:
            who = {name: one[name] for name in one if name != "assigned"}
            self.memberships.append(
                place | who | {"stage": said["stage"], "rack_id": None, "is_leader": one["member_id"] == said["leader"]}
            )
            if said["stage"] == "completed":
                self.assignments += [
                    place
                    | {"kind": "assigned", "member_id": one["member_id"], "instance_id": one["instance_id"]}
                    | {"topic": topic, "topic_id": None, "partition": number}
                    for topic, number in one["assigned"]
                ]

    def _consumer(self, row: Row, said: Row) -> None:
        kind, group = row["key_type"], row["group_id"]
        if kind == 3 and said["gone"]:
            self._groups.pop(group, None)
            self._epoch(row, "deleted", None, None)
            return
        if said["gone"] and group not in self._groups:
            return
        state = self._groups.setdefault(group, {"epoch": 0, "members": {}})
        members = state["members"]
        if kind == 3:
            state["epoch"] = said["epoch"]
            self._epoch(row, "epoch", said["epoch"], len(members))
        elif kind == 4 and not said["gone"]:
            for topic_id, name in said["names"]:
                self._names.setdefault(topic_id, name)
        elif kind == 5:
            self._membership(row, said, state)
        elif kind == 6 and not said["gone"]:
            self._epoch(row, "target", said["epoch"], len(members))
        elif kind in (7, 8) and not said["gone"]:
            instance = members.get(said["member_id"])
            number = state["epoch"] if kind == 7 else said["epoch"]
            parts = [("target" if kind == 7 else "current", said["owned"]), ("revoking", said.get("revoking", []))]
            self.assignments += [
                _place(row, "consumer")
                | {"generation": number, "kind": name, "member_id": said["member_id"], "instance_id": instance}
                | {"topic": self._names.get(topic_id), "topic_id": topic_id, "partition": partition}
                for name, owned in parts
                for topic_id, partitions in owned
                for partition in partitions
            ]

    def _membership(self, row: Row, said: Row, state: Row) -> None:
        who, gone = said["member_id"], said["gone"]
        instance = state["members"].pop(who, None) if gone else said["instance_id"]
        if not gone:
            state["members"][who] = instance
        names = ("client_id", "client_host", "rebalance_timeout_ms", "rack_id", "subscribed_topics")
        self.memberships.append(
            _place(row, "consumer")
            | {name: said.get(name) for name in names}
            | {"generation": state["epoch"] or None, "stage": "left" if gone else "joined", "is_leader": False}
            | {"member_id": who, "instance_id": instance, "session_timeout_ms": None}
        )

    def _epoch(self, row: Row, stage: str, number: int | None, count: int | None) -> None:
        self.generations.append(_place(row, "consumer") | {"stage": stage, "generation": number} | _count(row, count))


def _place(row: Row, kind: str) -> Row:
    return {name: row[name] for name in ("log_offset", "append_timestamp_ms", "group_id")} | {"group_kind": kind}


def _count(row: Row, members: int | None) -> Row:
    return {"record_type": row["key_type"], "member_count": members}
