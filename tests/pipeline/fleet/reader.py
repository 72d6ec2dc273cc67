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
EPOCH, NAMES, MEMBER, TARGET_EPOCH, TARGET, NOW = (
    (3, 11, 17),
    (4, 15),
    (5, 10, 19),
    (6, 12, 20),
    (7, 13, 21),
    (8, 14, 22),
)
TOPOLOGY = (23,)
SERVED = (*EPOCH, *NAMES, *MEMBER, *TARGET_EPOCH, *TARGET, *NOW, *TOPOLOGY)
"""Of groups whose members the server assigns: Kafka's schemas of KIP-848, KIP-932 and KIP-1071."""


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

    def tasks(self) -> list[tuple[str, list[int]]]:
        found = []
        for _ in range(self.uvarint() - 1):
            name = self.compact() or ""
            found.append((name, [self.number("i") for _ in range(self.uvarint() - 1)]))
            self.tags()
        return found

    def strings(self) -> list[str]:
        return [self.compact() or "" for _ in range(self.uvarint() - 1)]

    def pairs(self) -> None:
        for _ in range(self.uvarint() - 1):
            self.compact()
            self.compact()
            self.tags()

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


def kind_of(record_type: int) -> str:
    return "consumer" if record_type < 9 else "share" if record_type < 16 else "streams"


def served(row: Row) -> Row:
    """What a record of SERVED says; of a tombstone: whom it is about."""
    kind, value = row["key_type"], row["value"]
    key = Bytes(row["key"][2:])
    key.text()
    said: Row = {"gone": value is None}
    if kind in (*MEMBER, *TARGET, *NOW):
        said["member_id"] = key.text()
    if value is None:
        return said
    data = Value(value)
    assert data.number("h") == 0
    if kind in EPOCH:
        said["epoch"] = data.number("i")
        if kind != 3:
            data.number("q")
        tags = data.tags()
        said["validated"] = struct.unpack(">i", tags[0])[0] if kind == 17 and 0 in tags else None
        return said
    if kind in TARGET_EPOCH:
        return said | {"epoch": data.number("i"), "is_stamped": 0 in data.tags()}
    if kind in NAMES:
        return said | {"names": list(_named(data) if kind == 4 else _shared_names(data))}
    if kind in MEMBER:
        reads = {5: _consumer_member, 10: _share_member, 19: _streams_member}
        return said | reads[kind](data)
    if kind in TOPOLOGY:
        return said | {"number": data.number("i"), "topics": list(_sources(data))}
    said["epoch"] = data.number("i") if kind in NOW else None
    if kind in NOW:
        said |= {"previous": data.number("i"), "state": data.number("b")}
    said["owned"] = data.tasks() if kind in (21, 22) else data.ids()
    return said | {"revoking": data.ids() if kind == 8 else []}


def _shared_names(data: Value) -> Iterator[tuple[str, str]]:
    for _ in range(2):
        for _ in range(data.uvarint() - 1):
            topic_id = base64.urlsafe_b64encode(data.take(16)).decode().rstrip("=")
            yield topic_id, data.compact() or ""
            data.take(4 * (data.uvarint() - 1))
            data.tags()


def _share_member(data: Value) -> Row:
    row: Row = {name: data.compact() for name in ("rack_id", "client_id", "client_host")}
    return row | {"instance_id": None, "rebalance_timeout_ms": None, "subscribed_topics": sorted(data.strings())}


def _streams_member(data: Value) -> Row:
    row: Row = {name: data.compact() for name in ("instance_id", "rack_id", "client_id", "client_host")}
    return row | {"rebalance_timeout_ms": data.number("i"), "subscribed_topics": None}


def _sources(data: Value) -> Iterator[str]:
    for _ in range(data.uvarint() - 1):
        data.compact()
        yield from data.strings()
        data.strings()
        assert data.uvarint() == 1, "this reader knows no changelogs"
        data.strings()
        for _ in range(data.uvarint() - 1):
            yield data.compact() or ""
            data.take(6)
            data.pairs()
            data.tags()
        for _ in range(data.uvarint() - 1):
            for _ in range(3):
                data.take(2 * (data.uvarint() - 1))
            data.tags()
        data.tags()


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
        self.unread: list[tuple[str, int]] = []
        """(group, log offset) of records of types that nobody knows."""
        self._names: dict[str, str] = {}
        self._groups: dict[str, Row] = {}
        for row in rows:
            if row["key_type"] in CLASSIC:
                self.said.append((row, classic(row)))
                self._classic(*self.said[-1])
            elif row["key_type"] in SERVED:
                self.said.append((row, served(row)))
                self._served(*self.said[-1])
            elif row["key_type"] == 24:
                self.unread.append((Bytes(row["key"][2:]).text(), row["log_offset"]))
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

    def _served(self, row: Row, said: Row) -> None:
        kind, group = row["key_type"], row["group_id"]
        if kind in EPOCH and said["gone"]:
            self._groups.pop(group, None)
            self._epoch(row, "deleted", None, None)
            return
        if said["gone"] and group not in self._groups:
            return
        state = self._groups.setdefault(group, {"epoch": 0, "members": {}, "topics": []})
        members = state["members"]
        if kind in EPOCH:
            state["epoch"] = said["epoch"]
            self._epoch(row, "epoch", said["epoch"], len(members))
        elif kind in NAMES and not said["gone"]:
            for topic_id, name in said["names"]:
                self._names.setdefault(topic_id, name)
        elif kind in TOPOLOGY:
            state["topics"] = [] if said["gone"] else said["topics"]
        elif kind in MEMBER:
            self._membership(row, said, state)
        elif kind in TARGET_EPOCH and not said["gone"]:
            self._epoch(row, "target", said["epoch"], len(members))
        elif kind in (7, 8, 13, 14) and not said["gone"]:
            instance = members.get(said["member_id"])
            number = state["epoch"] if kind in TARGET else said["epoch"]
            parts = [("target" if kind in TARGET else "current", said["owned"]), ("revoking", said["revoking"])]
            self.assignments += [
                _place(row, kind_of(kind))
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
        told = {name: said.get(name) for name in names}
        if row["key_type"] == 19 and not gone:
            told["subscribed_topics"] = sorted(state["topics"])
        self.memberships.append(
            _place(row, kind_of(row["key_type"]))
            | told
            | {"generation": state["epoch"] or None, "stage": "left" if gone else "joined", "is_leader": False}
            | {"member_id": who, "instance_id": instance, "session_timeout_ms": None}
        )

    def _epoch(self, row: Row, stage: str, number: int | None, count: int | None) -> None:
        self.generations.append(
            _place(row, kind_of(row["key_type"])) | {"stage": stage, "generation": number} | _count(row, count)
        )


def _place(row: Row, kind: str) -> Row:
    return {name: row[name] for name in ("log_offset", "append_timestamp_ms", "group_id")} | {"group_kind": kind}


def _count(row: Row, members: int | None) -> Row:
    return {"record_type": row["key_type"], "member_count": members}
