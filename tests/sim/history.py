"""What clients asked and what the product said: the only thing that the checkers of promises look at.

An operation ends for the product when its answer leaves the replica (`answered_us`), whether or not the client ever
hears it: a promise that got lost on the way was made all the same. An operation without that is unknown.
"""

from typing import Any, NamedTuple


class CommitAsk(NamedTuple):
    """`rows`: (topic, partition, offset, leader epoch, metadata); the metadata is unique in the whole run."""

    generation: int
    member: str
    instance: str | None
    rows: tuple[tuple[str, int, int, int, str], ...]


class FetchAsk(NamedTuple):
    keys: tuple[tuple[str, int], ...]


class JoinAsk(NamedTuple):
    member: str
    instance: str | None
    session_ms: int
    rebalance_ms: int


class SyncAsk(NamedTuple):
    generation: int
    member: str
    instance: str | None
    plan: tuple[tuple[str, bytes], ...]


class MemberAsk(NamedTuple):
    """Heartbeat or leave."""

    generation: int
    member: str
    instance: str | None


class Op:
    """One request. Times are microseconds of virtual time."""

    __slots__ = (
        "answer", "answered_us", "api", "ask", "broker", "client", "group", "heard", "number", "reached_us", "sent_us",
        "term",
    )  # fmt: skip

    def __init__(self, number: int, client: str, api: int, group: str, ask: Any, sent_us: int) -> None:
        self.number = number
        self.client = client
        self.api = api
        self.group = group
        self.ask = ask
        self.sent_us = sent_us
        self.reached_us: int | None = None
        """When its last byte came to a replica."""
        self.answered_us: int | None = None
        self.heard = False
        """The client got the answer."""
        self.answer: Any = None
        self.broker = -1
        self.term = -1
        """Raft term of the group's partition at the replica that answered, at that moment."""


class History:
    """All operations of a run, in the order they were sent."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.crashes = 0
        self._uid = 0

    def begin(self, client: str, api: int, group: str, ask: Any, now_us: int) -> Op:
        op = Op(len(self.ops), client, api, group, ask, now_us)
        self.ops.append(op)
        return op

    def uid(self) -> int:
        """A number that no other commit carries."""
        self._uid += 1
        return self._uid

    def of(self, *apis: int) -> list[Op]:
        return [op for op in self.ops if op.api in apis]

    def answered(self) -> list[Op]:
        """In the order in which the answers left."""
        done = [op for op in self.ops if op.answered_us is not None]
        done.sort(key=lambda op: (op.answered_us, op.number))
        return done


class Violation(NamedTuple):
    """`invariant`: its name in docs/invariants.md."""

    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"
