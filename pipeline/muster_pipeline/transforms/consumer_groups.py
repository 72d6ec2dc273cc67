"""KIP-848 groups: from decoded records of types 3 to 8 to silver rows, and to gold `rebalances` and `balance`.

An epoch begins with a type 3 record and is complete when the target assignment is for it (type 6) and every member has
reached it (type 8) with no partition left to revoke. Both ends are in the log, so durations are exact. An epoch that
the next one overtakes is reported as not completed. Regular expressions (type 16) are resolved in type 5's topics.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster_pipeline.tables.errors import LimitReached
from muster_pipeline.transforms import balance, limits, rebalances
from muster_pipeline.transforms.group_rows import GroupRows
from muster_pipeline.transforms.group_view import HistoricGroup, MemberView, Owned, owned
from muster_pipeline.transforms.topic_names import TopicNames

KIND: Final = "consumer"
EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT = 3, 4, 5, 6, 7, 8

Record = Mapping[str, Any]


@dataclass(slots=True)
class ConsumerState:
    """The state of one group between records."""

    epoch: int = 0
    target_epoch: int = -1
    members: dict[str, Record] = field(default_factory=dict)
    current: dict[str, Record] = field(default_factory=dict)
    view: HistoricGroup | None = None
    completed_ms: int | None = None
    began: Record | None = None
    """The type 3 record of the epoch that is not complete yet."""
    regexes: dict[str, frozenset[str]] = field(default_factory=dict)

    def seen(self) -> HistoricGroup:
        """The group as it is now."""
        return HistoricGroup(
            generation=self.epoch,
            protocol=None,
            members={member_id: self._member(member) for member_id, member in self.members.items()},
        )

    def topics(self, member: Record) -> frozenset[str] | None:
        """Topics that a member subscribes to; None if the log has not resolved its regular expression."""
        topics = frozenset(member["subscribed_topics"] or ())
        regex = member["subscribed_regex"]
        if not regex:
            return topics
        return topics | self.regexes[regex] if regex in self.regexes else None

    def is_complete(self) -> bool:
        """The target is for the epoch, and every member has reached it. True without members."""
        if not self.members:
            return True
        return self.target_epoch >= self.epoch and all(
            (now := self.current.get(member_id)) is not None
            and now["member_epoch"] == self.epoch
            and not now["pending_revocation"]
            for member_id in self.members
        )

    def _member(self, member: Record) -> MemberView:
        now = self.current.get(member["member_id"])
        return MemberView(
            member_id=member["member_id"],
            instance_id=member["instance_id"],
            topics=self.topics(member),
            assigned=frozenset[Owned]() if now is None else owned(now["assigned"] or (), "topic_id"),
            rebalance_timeout_ms=member["rebalance_timeout_ms"],
        )


class ConsumerFold:
    """Fed with rows of CONSUMER_RECORDS as dictionaries, in log order."""

    def __init__(self, rows: GroupRows, names: TopicNames) -> None:
        self._rows = rows
        self._names = names
        self.groups: dict[str, ConsumerState] = {}

    def feed(self, records: Sequence[Record]) -> None:
        """Raises LimitReached."""
        for record in records:
            group_id, kind = record["group_id"], record["record_type"]
            if kind == EPOCH and record["is_tombstone"]:
                self.groups.pop(group_id, None)
                self._generation(record, None, "deleted", None)
                continue
            if group_id not in self.groups and record["is_tombstone"]:
                continue
            if group_id not in self.groups and len(self.groups) >= limits.GROUPS_MAX:
                raise LimitReached(f"more than GROUPS_MAX = {limits.GROUPS_MAX} groups in one log partition")
            state = self.groups.setdefault(group_id, ConsumerState())
            self._record(kind, state, record)
            if state.began is not None and state.is_complete():
                self._ended(state, state.began, record, completed=True)

    def _record(self, kind: int, state: ConsumerState, record: Record) -> None:
        if kind == EPOCH:
            if state.began is not None:
                self._ended(state, state.began, record, completed=False)
            state.epoch, state.began = record["group_epoch"], record
            self._generation(record, state.epoch, "epoch", len(state.members))
        elif kind == TOPICS:
            for topic in record["topics_metadata"] or ():
                self._names.learn(topic["topic_id"], topic["topic"], record["log_offset"])
        elif kind == MEMBER:
            self._member(state, record)
        elif kind == TARGET_EPOCH:
            if not record["is_tombstone"]:
                state.target_epoch = record["target_epoch"]
                self._generation(record, state.target_epoch, "target", len(state.members))
        elif kind == TARGET:
            self._assignments(state, record, state.epoch, (("target", "target"),))
        elif kind == CURRENT:
            self._current(state, record)
        elif record["is_tombstone"]:
            state.regexes.pop(record["regular_expression"], None)
        else:
            state.regexes[record["regular_expression"]] = frozenset(record["subscribed_topics"] or ())

    def _member(self, state: ConsumerState, record: Record) -> None:
        gone = record["is_tombstone"]
        member_id = record["member_id"]
        known = state.members.pop(member_id, None) if gone else record
        if not gone:
            state.members[member_id] = record
        topics = None if gone else state.topics(record)
        self._rows.add(
            "memberships",
            _place(record)
            | {
                "generation": state.epoch or None,
                "stage": "left" if gone else "joined",
                "member_id": member_id,
                "instance_id": None if known is None else known["instance_id"],
                "client_id": record["client_id"],
                "client_host": record["client_host"],
                "rebalance_timeout_ms": record["rebalance_timeout_ms"],
                "rack_id": record["rack_id"],
                "subscribed_topics": None if topics is None else sorted(topics),
                "is_leader": False,
            },
        )

    def _current(self, state: ConsumerState, record: Record) -> None:
        if record["is_tombstone"]:
            state.current.pop(record["member_id"], None)
            return
        state.current[record["member_id"]] = record
        kinds = (("current", "assigned"), ("revoking", "pending_revocation"))
        self._assignments(state, record, record["member_epoch"], kinds)

    def _assignments(
        self, state: ConsumerState, record: Record, generation: int, kinds: Sequence[tuple[str, str]]
    ) -> None:
        member = state.members.get(record["member_id"])
        place = _place(record) | {
            "generation": generation,
            "member_id": record["member_id"],
            "instance_id": None if member is None else member["instance_id"],
        }
        for kind, column in kinds:
            for entry in record[column] or ():
                named = {
                    "kind": kind,
                    "topic_id": entry["topic_id"],
                    "topic": self._names.name(entry["topic_id"], record["log_offset"]),
                }
                for partition in entry["partitions"]:
                    self._rows.add("assignments", place | named | {"partition": partition})

    def _generation(self, record: Record, generation: int | None, stage: str, members: int | None) -> None:
        self._rows.add(
            "generations",
            _place(record)
            | {
                "record_type": record["record_type"],
                "stage": stage,
                "generation": generation,
                "member_count": members,
            },
        )

    def _ended(self, state: ConsumerState, began: Record, record: Record, *, completed: bool) -> None:
        after = state.seen()
        timing = rebalances.Timing(
            started_ms=began["append_timestamp_ms"],
            started_at=began["log_offset"],
            ended_ms=record["append_timestamp_ms"],
            ended_at=record["log_offset"],
            sync_ms=None,
            previous_ms=state.completed_ms,
        )
        one = rebalances.Rebalance(
            group_id=record["group_id"], kind=KIND, before=state.view, after=after, timing=timing, completed=completed
        )
        self._rows.add("rebalances", rebalances.row(one))
        if completed:
            self._rows.add(
                "balance",
                balance.row(record["group_id"], KIND, after, record["append_timestamp_ms"], record["log_offset"]),
            )
        state.view, state.completed_ms, state.began = after, record["append_timestamp_ms"], None


def _place(record: Record) -> dict[str, Any]:
    names = ("log_offset", "append_timestamp_ms", "group_id")
    return {name: record[name] for name in names} | {"group_kind": KIND}
