"""Classic groups: from decoded group metadata to silver rows, and to gold `rebalances` and `balance`.

The state of a group is its last completed generation and the records of the rebalance under way. Kafka's log has
records of completed generations only; Muster's also says when a rebalance began and when its join phase ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster_pipeline.tables.errors import LimitReached
from muster_pipeline.transforms import balance, limits, rebalances
from muster_pipeline.transforms.clock import is_wrong, time_of
from muster_pipeline.transforms.group_rows import GroupRows
from muster_pipeline.transforms.group_view import HistoricGroup, MemberView, Owned, owned

KIND: Final = "classic"
_COMPLETED: Final = ("completed", "empty")
_GENERATION_COLUMNS: Final = (
    "log_offset",
    "append_timestamp_ms",
    "group_id",
    "record_type",
    "stage",
    "generation",
    "protocol_type",
    "protocol",
    "leader",
    "state_timestamp_ms",
    "reason",
)
_MEMBER_COLUMNS: Final = (
    "member_id",
    "instance_id",
    "client_id",
    "client_host",
    "session_timeout_ms",
    "rebalance_timeout_ms",
    "rack_id",
    "subscribed_topics",
)

Record = Mapping[str, Any]


@dataclass(slots=True)
class ClassicState:
    """The state of one group between records."""

    state: str = "empty"
    """stable, empty, preparing or completing, by the last record."""
    protocol_type: str | None = None
    state_timestamp_ms: int | None = None
    view: HistoricGroup | None = None
    completed_ms: int | None = None
    lost: frozenset[Owned] = frozenset()
    began: Record | None = None
    """The type 1001 record that began the rebalance under way."""
    reasons: list[str] = field(default_factory=list)
    joined_ms: int | None = None
    """When the join phase ended (type 1000)."""
    is_joined_wrong: bool = False
    """The clock was wrong then, or (next one) when the last generation was completed."""
    is_completed_wrong: bool = False


class ClassicFold:
    """Fed with rows of GENERATION_RECORDS as dictionaries, in log order."""

    def __init__(self, rows: GroupRows) -> None:
        self._rows = rows
        self.groups: dict[str, ClassicState] = {}
        """Groups that exist at this point of the log."""

    def feed(self, records: Sequence[Record]) -> None:
        """Raises LimitReached."""
        for record in records:
            self._silver(record)
            self._fold(record)

    def _silver(self, record: Record) -> None:
        members = record["members"]
        self._rows.add(
            "generations",
            {name: record[name] for name in _GENERATION_COLUMNS}
            | {"group_kind": KIND, "member_count": None if members is None else len(members)},
        )
        if record["stage"] not in ("completed", "candidate", "rebalance"):
            return
        place = {
            "log_offset": record["log_offset"],
            "append_timestamp_ms": record["append_timestamp_ms"],
            "group_id": record["group_id"],
            "group_kind": KIND,
            "generation": record["generation"],
        }
        for member in members:
            self._rows.add("memberships", place | _membership(record, member))
            if record["stage"] != "completed":
                continue
            who = {"kind": "assigned", "member_id": member["member_id"], "instance_id": member["instance_id"]}
            for entry in member["assigned"] or ():
                self._rows.assign(place | who | {"topic": entry["topic"]}, entry["partitions"])

    def _fold(self, record: Record) -> None:
        group_id, stage = record["group_id"], record["stage"]
        if stage == "deleted":
            self.groups.pop(group_id, None)
            return
        if stage == "settled":
            return
        if group_id not in self.groups and len(self.groups) >= limits.GROUPS_MAX:
            raise LimitReached(f"more than GROUPS_MAX = {limits.GROUPS_MAX} groups in one log partition")
        state = self.groups.setdefault(group_id, ClassicState())
        state.protocol_type = record["protocol_type"] or None
        state.state_timestamp_ms = record["state_timestamp_ms"]
        if stage == "rebalance":
            state.state = "preparing"
            state.began = state.began or record
            state.reasons.append(record["reason"] or "")
        elif stage == "candidate":
            state.state = "completing"
            state.joined_ms, state.is_joined_wrong = time_of(record), is_wrong(record)
        else:
            self._completed(group_id, state, record)

    def _completed(self, group_id: str, state: ClassicState, record: Record) -> None:
        assert record["stage"] in _COMPLETED
        state.state = "stable" if record["members"] else "empty"
        after = view(record)
        at_ms, at = time_of(record), record["log_offset"]
        wrong = is_wrong(record) or (state.began is not None and is_wrong(state.began)) or state.is_joined_wrong
        if state.view is not None and state.view.generation == after.generation:
            came_back = state.view.members.keys() != after.members.keys()
        else:
            came_back = True
        is_birth = state.view is None and not after.members and after.generation == 0
        if came_back and not is_birth:
            one = rebalances.Rebalance(
                group_id=group_id,
                kind=KIND,
                before=state.view,
                after=after,
                timing=_timing(state, record),
                reasons=tuple(state.reasons),
                lost_before=state.lost,
                is_timed=not wrong and not state.is_completed_wrong,
            )
            changes = one.changes()
            self._rows.add("rebalances", rebalances.row(one))
            self._rows.add("balance", balance.row(group_id, KIND, after, at_ms, at))
            state.lost = frozenset() if changes is None else changes.lost
        state.view, state.completed_ms = after, at_ms
        state.began, state.joined_ms = None, None
        state.is_completed_wrong, state.is_joined_wrong = is_wrong(record), False
        state.reasons.clear()


def view(record: Record) -> HistoricGroup:
    """The generation in a completed record."""
    members = [
        MemberView(
            member_id=member["member_id"],
            instance_id=member["instance_id"],
            topics=None if member["subscribed_topics"] is None else frozenset(member["subscribed_topics"]),
            assigned=owned(member["assigned"], "topic"),
            rebalance_timeout_ms=member["rebalance_timeout_ms"],
        )
        for member in record["members"] or ()
    ]
    return HistoricGroup(
        generation=record["generation"],
        protocol=record["protocol"],
        members={member.member_id: member for member in members},
    )


def _timing(state: ClassicState, record: Record) -> rebalances.Timing:
    ended_ms = time_of(record)
    joined_ms = state.joined_ms if state.joined_ms is not None else record["state_timestamp_ms"]
    sync_ms = None if joined_ms is None or not record["members"] else max(0, ended_ms - joined_ms)
    began = state.began
    started_ms = None
    if began is not None:
        said = began["state_timestamp_ms"]
        started_ms = time_of(began) if said is None else said
    return rebalances.Timing(
        started_ms=started_ms,
        started_at=None if began is None else began["log_offset"],
        ended_ms=ended_ms,
        ended_at=record["log_offset"],
        sync_ms=sync_ms,
        previous_ms=state.completed_ms,
    )


def _membership(record: Record, member: Record) -> dict[str, Any]:
    claimed = member["owned"]
    return {name: member[name] for name in _MEMBER_COLUMNS} | {
        "stage": record["stage"],
        "owned_count": None if claimed is None else sum(len(entry["partitions"]) for entry in claimed),
        "is_leader": member["member_id"] == record["leader"],
    }
