"""Groups whose members the server assigns (KIP-848, share, Streams): from decoded records to silver rows and to gold
`rebalances` and `balance`.

An epoch begins with its record (type 3, 11, 17). It is complete as Kafka's coordinator says it (ConsumerGroup and
StreamsGroup, maybeUpdateGroupState): the target assignment is for it, and every member has reached that target and is
stable, which it is not while it must still revoke, or waits for others to release. Both ends are in the log, so
durations are exact. An epoch that the next one overtakes is reported as not completed. Regular expressions (type 16)
are resolved in type 5's topics. A Streams group's partitions are its active tasks; a share group's have no single
owner, so that nothing moves in it.
"""

from collections.abc import Sequence
from typing import Any

from muster_pipeline.schemas.consumer_records import GROUP_KIND, KINDS
from muster_pipeline.tables.errors import LimitReached
from muster_pipeline.transforms import balance, limits, rebalances
from muster_pipeline.transforms.clock import is_wrong, time_of
from muster_pipeline.transforms.consumer_state import ConsumerState, Record
from muster_pipeline.transforms.group_rows import GroupRows
from muster_pipeline.transforms.topic_names import TopicNames


class ConsumerFold:
    """Fed with rows of CONSUMER_RECORDS as dictionaries, in log order."""

    def __init__(self, rows: GroupRows, names: TopicNames) -> None:
        self._rows = rows
        self._names = names
        self.groups: dict[str, ConsumerState] = {}

    def feed(self, records: Sequence[Record]) -> None:
        """Raises LimitReached."""
        for record in records:
            group_id, kind = record["group_id"], KINDS[record["record_type"]]
            if kind == "group_epoch" and record["is_tombstone"]:
                self.groups.pop(group_id, None)
                self._generation(record, None, "deleted", None)
                continue
            if group_id not in self.groups and record["is_tombstone"]:
                continue
            if group_id not in self.groups and len(self.groups) >= limits.GROUPS_MAX:
                raise LimitReached(f"more than GROUPS_MAX = {limits.GROUPS_MAX} groups in one log partition")
            state = self._state(group_id, GROUP_KIND[record["record_type"]])
            self._record(kind, state, record)
            state.is_timed = state.is_timed and not is_wrong(record)
            # A member that leaves makes a new epoch in the same batch: its absence completes nothing.
            counts = not record["is_tombstone"] or not state.members
            if state.began is not None and counts and state.is_complete():
                self._ended(state, state.began, record, completed=True)

    def _state(self, group_id: str, kind: str) -> ConsumerState:
        """Of a group whose kind is another one than it was, nothing is left."""
        known = self.groups.get(group_id)
        if known is None or known.kind != kind:
            known = self.groups[group_id] = ConsumerState(kind)
        return known

    def _record(self, kind: str, state: ConsumerState, record: Record) -> None:
        if kind == "group_epoch":
            if state.began is not None:
                self._ended(state, state.began, record, completed=False)
            state.epoch, state.began, state.is_timed = record["group_epoch"], record, True
            state.validated_topology_epoch = record["validated_topology_epoch"]
            state.had_first = state.had_first or state.epoch == 1
            self._generation(record, state.epoch, "epoch", len(state.members))
        elif kind in ("partition_metadata", "share_state_topics"):
            for topic in record["topics_metadata"] or ():
                self._names.learn(topic["topic_id"], topic["topic"], record["log_offset"])
        elif kind == "member":
            self._member(state, record)
        elif kind == "target_epoch":
            if not record["is_tombstone"]:
                state.target_epoch = record["target_epoch"]
                state.is_stamped = state.is_stamped or record["target_timestamp_ms"] is not None
                state.had_first = state.had_first or state.target_epoch == 1
                self._generation(record, state.target_epoch, "target", len(state.members))
        elif kind == "target_assignment":
            self._assignments(state, record, state.epoch, (("target", "target"),))
        elif kind == "current_assignment":
            self._current(state, record)
        elif kind == "topology":
            state.topology = None if record["is_tombstone"] else record
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
        owns = bool(record["assigned"] or record["active"])
        state.had_first = state.had_first or (record["member_epoch"] == 1 and owns)
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
                self._rows.assign(place | named, entry["partitions"])

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
        ended_ms = time_of(record)
        timing = rebalances.Timing(
            started_ms=time_of(began),
            started_at=began["log_offset"],
            ended_ms=ended_ms,
            ended_at=record["log_offset"],
            sync_ms=None,
            previous_ms=state.completed_ms,
        )
        one = rebalances.Rebalance(
            group_id=record["group_id"],
            kind=state.kind,
            before=state.view,
            after=after,
            timing=timing,
            completed=completed,
            first_generation=state.first_generation,
            is_timed=state.is_timed and not is_wrong(record) and not is_wrong(began),
        )
        self._rows.add("rebalances", rebalances.row(one))
        if completed:
            self._rows.add(
                "balance",
                balance.row(record["group_id"], state.kind, after, ended_ms, record["log_offset"]),
            )
        state.view, state.completed_ms, state.began = after, ended_ms, None


def _place(record: Record) -> dict[str, Any]:
    names = ("log_offset", "append_timestamp_ms", "group_id")
    return {name: record[name] for name in names} | {"group_kind": GROUP_KIND[record["record_type"]]}
