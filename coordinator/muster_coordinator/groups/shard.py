"""The group coordinator of one offsets partition: a pure state machine (`effects.Shard`).

Requests with tickets go in, effects come out, and committed entries come back through `apply`. This file only
dispatches: request handlers are in `membership`, `offsets` and `views`, durable state is in `state`, volatile state in
`core`.

Deliberately absent: who leads, when a quorum was last heard, whether an answer may leave yet (the host decides), and
whether a principal is authorised (the API layer decides).
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from muster_coordinator.errors import Code
from muster_coordinator.events import Event
from muster_coordinator.groups import limits
from muster_coordinator.groups.config import ShardConfig
from muster_coordinator.groups.core import Core, Step
from muster_coordinator.groups.effects import AppliedBatch, CheckpointBody, CheckpointImage, Effect, Now, Shard
from muster_coordinator.groups.faults import Fault
from muster_coordinator.groups.live.deadlines import Timer, TimerKind
from muster_coordinator.groups.live.live_group import LiveGroup
from muster_coordinator.groups.log.checkpoint import ShardImage, body_hash, restore_state
from muster_coordinator.groups.log.replay import replay_batch
from muster_coordinator.groups.membership import expulsion, rebalance, sync, waking
from muster_coordinator.groups.membership.heartbeat import heartbeat, heartbeat_at_once
from muster_coordinator.groups.membership.join import join
from muster_coordinator.groups.membership.leave import leave
from muster_coordinator.groups.membership.warmup import WarmUp
from muster_coordinator.groups.offsets.commit import commit
from muster_coordinator.groups.offsets.expiry import expiry_sweep
from muster_coordinator.groups.offsets.fetch import fetch, fetched
from muster_coordinator.groups.offsets.group_delete import delete_group
from muster_coordinator.groups.offsets.offset_delete import delete_offsets
from muster_coordinator.groups.offsets.topic_deletion import named_deletion, topic_deletion
from muster_coordinator.groups.offsets.transactions import end_transaction, needs_verification, txn_commit
from muster_coordinator.groups.requests import (
    DeleteGroup,
    DescribeGroup,
    GroupRequest,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetFetchAnswer,
    SyncGroup,
    TxnOffsetCommit,
    WriteMarker,
    refusal,
)
from muster_coordinator.groups.state.offset_row import NO_TOPIC_ID, fetched_fields, topic_id_of
from muster_coordinator.groups.state.offsets_store import Place
from muster_coordinator.groups.stats import GroupMetrics, ShardStats
from muster_coordinator.groups.views.describe import describe
from muster_coordinator.groups.views.group_views import committed_offsets, group_views
from muster_coordinator.groups.views.listing import Listing, list_groups
from muster_coordinator.ports import Rand
from muster_coordinator.records.producers import ProducerState


class GroupShard:
    """The groups of one offsets partition. Single-threaded. No method blocks, sleeps, or raises because of a client's
    bytes: an error that escapes a handler is contained (`faults`)."""

    def __init__(self, config: ShardConfig, rand: Rand) -> None:
        self._core = Core(config, rand, self._judge)
        self._expiry_timer = Timer(TimerKind.EXPIRY)
        self._deleted_topics: dict[bytes, None] = {}
        self._gone_topics: dict[str, int] = {}
        """Deleted topics of an upstream → when each was last seen."""
        self._now_ms = 0

    # The log.

    def apply(self, now: Now, entry: AppliedBatch) -> None:
        """Apply one committed batch, in log order. Raises MalformedError for a record that this release cannot keep."""
        del now
        replay_batch(self._core.state, entry)

    def applied(self, now: Now, token: int) -> list[Effect]:
        """A batch that this leader proposed was just applied."""
        self._now_ms = now.monotonic_ms
        self._core.applied(now, token)
        return self._core.take_effects()

    def dropped(self, now: Now, token: int, code: Code) -> list[Effect]:
        """A proposed batch was not appended, or its fate is unknown because leadership was lost."""
        self._now_ms = now.monotonic_ms
        self._core.dropped(now, token, code)
        return self._core.take_effects()

    def unprovable(self, now: Now, token: int, error: Exception) -> list[Effect]:
        """A batch failed its proof (`proof`) and was not proposed."""
        self._now_ms = now.monotonic_ms
        self._core.unprovable(now, token, error)
        return self._core.take_effects()

    def take_faults(self) -> list[Fault]:
        """Take the contained errors since the last call; see `faults`."""
        core = self._core
        faults, core.faults = core.faults, []
        return faults

    @property
    def untold(self) -> bool:
        """Whether there are faults or events to take."""
        core = self._core
        return bool(core.events or core.faults)

    def take_events(self) -> list[Event]:
        """Take the log events since the last call, in order; see `events`."""
        core = self._core
        events, core.events = core.events, []
        return events

    def image(self) -> CheckpointImage:
        """A snapshot. O(groups) pointer copies."""
        return ShardImage(self._core.state)

    def restore(self, body: CheckpointBody) -> None:
        """Replace all state by a checkpoint. Not while leading. Raises Corruption when it cannot be read."""
        assert self._core.term is None, "a leader is never restored"
        self._core.state = restore_state(body)

    def state_hash(self) -> str:
        """SHA-256 of the checkpoint body; O(state)."""
        return body_hash(self.image().encode())

    # Leadership.

    def lead(self, now: Now, term: int) -> list[Effect]:
        """Start serving: every session is armed anew, in slices, or before that by its group's first request."""
        core = self._core
        assert core.term is None, "leads already"
        self._now_ms = now.monotonic_ms
        core.term = term
        core.clock_base_ms = now.wall_ms - now.monotonic_ms
        core.jobs.append(WarmUp(core))
        if self._deleted_topics:
            core.jobs.append(topic_deletion(core, self._deleted_topics))
        if self._gone_topics:
            core.jobs.append(named_deletion(core, self._gone_topics))
        core.deadlines.arm(self._expiry_timer, now.monotonic_ms + core.config.offsets_retention_check_ms)
        return core.take_effects()

    def resign(self, now: Now) -> list[Effect]:
        """Leadership is lost: every open ticket is answered 16."""
        self._now_ms = now.monotonic_ms
        self._core.abandon()
        self._expiry_timer = Timer(TimerKind.EXPIRY)
        return self._core.take_effects()

    def topic_deleted(self, now: Now, topic_id: bytes) -> list[Effect]:
        """Tombstone the offsets committed under this id, in slices. A follower keeps the id for when it leads."""
        self._now_ms = now.monotonic_ms
        self._deleted_topics[topic_id] = None
        if len(self._deleted_topics) > limits.TOPIC_DELETIONS_REMEMBERED:
            del self._deleted_topics[next(iter(self._deleted_topics))]
        if self._core.term is not None:
            self._core.jobs.append(topic_deletion(self._core, (topic_id,)))
        return self._core.take_effects()

    def topics_gone(self, now: Now, last_seen_ms: Mapping[str, int]) -> list[Effect]:
        """Tombstone the offsets of these deleted topics of an upstream that were committed by then, in slices. A
        follower keeps the names for when it leads."""
        self._now_ms = now.monotonic_ms
        for topic, seen_ms in last_seen_ms.items():
            self._gone_topics.pop(topic, None)
            self._gone_topics[topic] = seen_ms
        while len(self._gone_topics) > limits.TOPIC_DELETIONS_REMEMBERED:
            del self._gone_topics[next(iter(self._gone_topics))]
        if self._core.term is not None:
            self._core.jobs.append(named_deletion(self._core, last_seen_ms))
        return self._core.take_effects()

    # Requests and time.

    def handle(self, now: Now, ticket: int, request: GroupRequest) -> list[Effect]:
        """Handle a request, queue it behind its group's record in flight, or refuse it."""
        core = self._core
        self._now_ms = now.monotonic_ms
        if core.term is None:
            core.answer(ticket, refusal(request, Code.NOT_COORDINATOR))
        elif isinstance(request, ListGroups) or core.admitted(ticket, request, request.group):
            self._judge(now, ticket, request)
        return core.take_effects()

    def heartbeat_at_once(self, now_ms: int, request: Heartbeat) -> Code | None:
        """The answer that `handle` would give, without ticket and effects; None: call `handle`."""
        core = self._core
        try:
            return None if core.term is None else heartbeat_at_once(core, now_ms, request)
        except Exception:  # noqa: BLE001  # `handle` raises it again, and contains it.
            return None

    def begin_verification(self, producer_id: int, producer_epoch: int) -> int:
        """Whether the transaction's coordinator must agree before this producer's next TxnOffsetCommit: 0, or the
        number to hand in with the request once it has agreed. To be given back with `end_verification` otherwise."""
        core = self._core
        if core.term is None or not needs_verification(core, producer_id, producer_epoch):
            return 0
        return core.producers.begin_verification(producer_id)

    def open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has an open transaction of this epoch here, with what is in flight."""
        return self._core.term is not None and not needs_verification(self._core, producer_id, producer_epoch)

    def end_verification(self, producer_id: int, verification: int) -> None:
        """The coordinator did not agree, or the request is over."""
        self._core.producers.end_verification(producer_id, verification)

    def fetched(self, request: OffsetFetch) -> OffsetFetchAnswer | None:
        """The answer that `handle` would give, without ticket and effects; None: call `handle`."""
        core = self._core
        try:
            return None if core.term is None else fetched(core, request)
        except Exception:  # noqa: BLE001  # `handle` raises it again, and contains it.
            return None

    def next_deadline_ms(self) -> int | None:
        """When to call `on_timer`. A time not after the last call's means: as soon as the loop has time."""
        return self._now_ms if self._core.jobs else self._core.deadlines.next_ms()

    def on_timer(self, now: Now) -> list[Effect]:
        """Fire due timers, at most GROUP_TIMERS_PER_TURN, then run one slice of one background job."""
        core = self._core
        self._now_ms = now.monotonic_ms
        sessions: dict[str, list[Timer]] = {}
        for timer in core.deadlines.due(now.monotonic_ms, limits.GROUP_TIMERS_PER_TURN):
            if timer.kind is TimerKind.EXPIRY:
                core.jobs.append(expiry_sweep(core))
                core.deadlines.arm(timer, now.monotonic_ms + core.config.offsets_retention_check_ms)
            elif timer.kind is TimerKind.WAITING:
                core.drain(now, timer.group)
            elif timer.kind is TimerKind.JOB:
                core.jobs.append(core.resting.pop(timer))
            elif core.defers(timer):
                continue
            elif timer.kind is TimerKind.SESSION:
                sessions.setdefault(timer.group, []).append(timer)
            else:
                self._fire(now, timer)
        for group, timers in sessions.items():
            self._expire_sessions(now, group, timers)
        self._run_job(now)
        return core.take_effects()

    # Views.

    @property
    def stats(self) -> ShardStats:
        """Counters of this process."""
        return self._core.stats

    def views(self) -> Iterator[GroupMetrics]:
        """All groups, lazily: the caller takes as many per turn as it may. The names are fixed at the first step."""
        return group_views(self._core)

    def committed(self, group: str) -> Iterator[tuple[str, int, int]]:
        """(topic, partition, offset) of the offsets that a group had at the first step, lazily."""
        return committed_offsets(self._core, group)

    def groups_with_offsets(self) -> list[str]:
        """The groups that have committed offsets now."""
        return list(self._core.state.offsets.groups())

    def committed_offset(self, group: str, topic: str, partition: int, topic_id: bytes) -> int | None:
        """The offset that the group has committed in this topic; None: it has none, or only in another of its name."""
        table = self._core.state.offsets.peek(group)
        row = None if table is None else table.get(topic, partition)
        if row is None or topic_id_of(row) not in (NO_TOPIC_ID, topic_id):
            return None
        offset = fetched_fields(row)[0]
        return None if offset < 0 else offset

    def note_changes(self, wanted: bool) -> None:
        """From now on `take_changes` tells what offsets have changed, or no more. A restore ends it, too."""
        self._core.state.offsets.changes = {} if wanted else None

    def take_changes(self) -> list[Place]:
        """(group, topic, partition) of the offsets that were committed or removed since the last call."""
        offsets = self._core.state.offsets
        if not offsets.changes:
            return []
        changes, offsets.changes = list(offsets.changes), {}
        return changes

    def producers(self) -> Iterator[tuple[int, ProducerState]]:
        """The producers that are known here, as applied."""
        return self._core.state.producers.items()

    def first_open_offset(self) -> int:
        """Kafka offset at which the oldest open transaction began, -1 for none: the last stable offset stops there."""
        return self._core.state.producers.first_open_offset()

    # Dispatch.

    def _judge(self, now: Now, ticket: int, request: GroupRequest) -> None:
        """Handle a request now. Requests that waited for their group's record come here too."""
        try:
            self._dispatch(now, ticket, request)
        except Exception as error:  # noqa: BLE001  # contained: see `faults`
            core = self._core
            core.answer_once(ticket, refusal(request, Code.UNKNOWN_SERVER_ERROR))
            core.listings.pop(ticket, None)
            group = "" if isinstance(request, ListGroups) else request.group
            core.contain(now, type(request).__name__, group, error)

    def _dispatch(self, now: Now, ticket: int, request: GroupRequest) -> None:
        core = self._core
        match request:
            case Heartbeat():
                heartbeat(core, now, ticket, request)
            case OffsetCommit():
                commit(core, now, ticket, request)
            case OffsetFetch():
                fetch(core, now, ticket, request)
            case JoinGroup():
                join(core, now, ticket, request)
            case SyncGroup():
                sync.sync(core, now, ticket, request)
            case LeaveGroup():
                leave(core, now, ticket, request)
            case DescribeGroup():
                describe(core, now, ticket, request)
            case ListGroups():
                list_groups(core, now, ticket, request)
            case OffsetDelete():
                delete_offsets(core, now, ticket, request)
            case DeleteGroup():
                delete_group(core, now, ticket, request)
            case TxnOffsetCommit():
                txn_commit(core, now, ticket, request)
            case WriteMarker():
                end_transaction(core, now, ticket, request)

    def _fire(self, now: Now, timer: Timer) -> None:
        live = self._core.lives.get(timer.group)
        if live is None:
            return
        try:
            self._act_on(now, live, timer)
        except Exception as error:  # noqa: BLE001  # contained: see `faults`
            self._core.contain(now, f"a timer, {timer.kind.name}", timer.group, error)

    def _act_on(self, now: Now, live: LiveGroup, timer: Timer) -> None:
        core = self._core
        if timer is live.join_timer:
            rebalance.on_join_timer(core, now, live)
        elif timer is live.sync_timer:
            sync.on_sync_timer(core, now, live)
        elif timer is live.pending_rebalance_timer:
            waking.start_pending_rebalance(core, now, live)
        elif timer.kind is TimerKind.PENDING_MEMBER:
            expulsion.expire_pending_member(core, now, live, timer)

    def _expire_sessions(self, now: Now, group: str, timers: list[Timer]) -> None:
        """Expired sessions of one group, together: one record removes all of their members."""
        core = self._core
        due = [timer for timer in timers if not core.defers(timer)]
        live = core.lives.get(group)
        if live is None or not due:
            return
        try:
            expulsion.expire(core, now, live, due)
        except Exception as error:  # noqa: BLE001  # contained: see `faults`
            core.contain(now, "sessions that ended", group, error)

    def _run_job(self, now: Now) -> None:
        core = self._core
        if not core.jobs:
            return
        job = core.jobs.popleft()
        try:
            step = job.step(core, now)
        except Exception as error:  # noqa: BLE001  # contained: see `faults`
            if isinstance(job, Listing) and core.listings.pop(job.ticket, None) is not None:
                core.answer(job.ticket, refusal(job.request, Code.UNKNOWN_SERVER_ERROR))
            core.contain(now, f"a job, {type(job).__name__}", "", error)
            return
        if step is Step.MORE:
            core.jobs.append(job)


if TYPE_CHECKING:
    _IS_A_SHARD: type[Shard] = GroupShard
