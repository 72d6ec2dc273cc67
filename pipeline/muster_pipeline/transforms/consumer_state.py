"""The state of one group whose members the server assigns, between its records; what it says is Kafka's own rule."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster_pipeline.transforms.group_view import HistoricGroup, MemberView, Owned, owned

SHARE, STREAMS = "share", "streams"
_STABLE: Final = 0
_BORN_AT: Final = 2
"""Kafka 4.3 makes a group with epoch 1 and logs none before 2 (ModernGroup, StreamsGroup); it is the first release that
stamps a target assignment with its time."""

Record = Mapping[str, Any]


@dataclass(slots=True)
class ConsumerState:
    """The state of one group between records."""

    kind: str
    epoch: int = 0
    target_epoch: int = -1
    members: dict[str, Record] = field(default_factory=dict)
    current: dict[str, Record] = field(default_factory=dict)
    view: HistoricGroup | None = None
    completed_ms: int | None = None
    began: Record | None = None
    """The record of the epoch that is not complete yet."""
    regexes: dict[str, frozenset[str]] = field(default_factory=dict)
    topology: Record | None = None
    validated_topology_epoch: int | None = None
    is_stamped: bool = False
    """A target assignment had its time."""
    had_first: bool = False
    """A record told of epoch 1 as one that the group was given."""
    is_timed: bool = True
    """False: the epoch under way has a record whose time is wrong."""

    @property
    def state(self) -> str:
        """As Kafka's coordinator names it, in lower case."""
        if not self.members:
            return "empty"
        if self.kind == SHARE:
            return "stable"
        if self.kind == STREAMS and not self._is_ready():
            return "not_ready"
        if self.target_epoch < self.epoch:
            return "assigning"
        return "stable" if all(map(self._is_reconciled, self.members)) else "reconciling"

    def _is_ready(self) -> bool:
        if self.topology is None:
            return False
        return self.validated_topology_epoch in (None, self.topology["topology_epoch"])

    def _is_reconciled(self, member_id: str) -> bool:
        now = self.current.get(member_id)
        return now is not None and now["member_state"] == _STABLE and now["member_epoch"] == self.target_epoch

    @property
    def first_generation(self) -> int:
        """1; 2 if a release wrote the group that begins with it, and nothing tells of an epoch 1."""
        return _BORN_AT if self.is_stamped and not self.had_first and self.members else 1

    def seen(self) -> HistoricGroup:
        """The group as it is now."""
        return HistoricGroup(
            generation=self.epoch,
            protocol=None,
            members={member_id: self._member(member) for member_id, member in self.members.items()},
        )

    def topics(self, member: Record) -> frozenset[str] | None:
        """Topics that a member subscribes to; None if the log has not resolved its regular expression.

        Members of a Streams group share the topology's, which are those that Kafka knows by name.
        """
        if self.kind == STREAMS:
            parts = () if self.topology is None else self.topology["subtopologies"]
            return frozenset(topic for part in parts for topic in part["topics"])
        topics = frozenset(member["subscribed_topics"] or ())
        regex = member["subscribed_regex"]
        if not regex:
            return topics
        return topics | self.regexes[regex] if regex in self.regexes else None

    def is_complete(self) -> bool:
        """The target is for the epoch, and every member has reached it and is stable. True without members."""
        if not self.members:
            return True
        return self.target_epoch >= self.epoch and all(map(self._is_reconciled, self.members))

    def _member(self, member: Record) -> MemberView:
        return MemberView(
            member_id=member["member_id"],
            instance_id=member["instance_id"],
            topics=self.topics(member),
            assigned=self._owned(self.current.get(member["member_id"])),
            rebalance_timeout_ms=member["rebalance_timeout_ms"],
        )

    def _owned(self, now: Record | None) -> frozenset[Owned] | None:
        if self.kind == SHARE:
            return None
        if now is None:
            return frozenset()
        if self.kind == STREAMS:
            return owned(now["active"] or (), "subtopology")
        return owned(now["assigned"] or (), "topic_id")
