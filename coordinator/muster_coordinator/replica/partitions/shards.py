"""The host of one offsets partition's group shard: passes requests to it, carries out its effects, and applies its log.

Problem: requests must be served only by a leader, and answers leave only when they are true and durable. Mechanism:
`coordinator_group`, and:

* A request for a partition that is not led here is answered NOT_COORDINATOR (16). One that arrives before the no-op of
  the leader's term is applied, or during a leadership transfer, is parked (decision 5).
* Reads (`requests.READS`) reach the shard after one ReadIndex round, shared by all reads of a turn (decision 36).
  Denials (`requests.denies`) leave after such a round, since a deposed leader does not know who joined elsewhere.
* Joining and synchronising wait for other members, and so have no proposal timeout.
* One entry may cause thousands of answers (the end of a join phase): they leave in slices.
* A commit in a transaction that has not begun here is kept while the transaction's coordinator is asked (`verify`,
  KIP-890). What it says holds for this term only.
* When leadership is lost, every open ticket is answered 16, as soon as the new leader is known here or after a short
  wait, so that a client that looks up the coordinator next is told the right one.

What it does not do: decide anything about groups.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

from typing_extensions import override

from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code, ends_process
from muster_coordinator.groups.append_errors import client_code
from muster_coordinator.groups.effects import Answer, Append, CheckpointBody, Effect
from muster_coordinator.groups.faults import Unprovable
from muster_coordinator.groups.log.proof import proven_batch
from muster_coordinator.groups.requests import (
    DENIALS,
    READS,
    GroupAnswer,
    GroupRequest,
    Heartbeat,
    JoinGroup,
    OffsetFetch,
    SyncGroup,
    TxnOffsetCommit,
    WriteMarker,
    WriteMarkerAnswer,
    denies,
    refusal,
)
from muster_coordinator.groups.shard import GroupShard
from muster_coordinator.limits import COORDINATOR_LOOKUP_WAIT_MS
from muster_coordinator.ports import Loop, Notice, unnoticed
from muster_coordinator.raft.messages import Entry, EntryKind
from muster_coordinator.raft.timing import Timing
from muster_coordinator.records.control import TransactionMarker
from muster_coordinator.replica import limits
from muster_coordinator.replica.multiraft.deadlines import Deadlines
from muster_coordinator.replica.multiraft.leaders import Leaders
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.multiraft.status import OpenTransactions
from muster_coordinator.replica.partitions.coordinator_group import CoordinatorGroup, OpenRequests
from muster_coordinator.replica.partitions.parking import AnswerCall, Parking
from muster_coordinator.replica.partitions.partition import PartitionState

LOGGED_CHARS_MAX = 256
"""Characters logged of a group id, which a client has chosen."""
Verify = Callable[[Callable[[Code], None]], None]
"""Ask the coordinator of the request's transaction whether this offsets partition is in it; the callback is called
once, on the loop."""
_NOT_WRITTEN = {
    Code.NOT_COORDINATOR: Code.NOT_LEADER_OR_FOLLOWER,
    Code.COORDINATOR_NOT_AVAILABLE: Code.REQUEST_TIMED_OUT,
}
"""Codes of markers, by those of a shard. Transaction coordinators send a marker again on both."""


class OffsetsMirror(Protocol):
    """Who shows elsewhere what offsets the groups led here have (`redis_mirror`). Called while an entry is applied, so
    it only takes notes."""

    def began(self, shard: "ShardGroup") -> None: ...
    def ended(self, shard: "ShardGroup") -> None: ...
    def changed(self, shard: "ShardGroup", offsets: Iterable[tuple[str, str, int]]) -> None: ...


MAY_WAIT_LONG = (JoinGroup, SyncGroup)
"""Requests that wait for other members, and so have no proposal timeout."""


class ShardGroup(CoordinatorGroup[Effect]):
    """One offsets partition, and the entrance for its requests."""

    def __init__(
        self,
        group: RaftGroup,
        loop: Loop,
        deadlines: Deadlines,
        leaders: Leaders,
        state: PartitionState,
        shard: GroupShard,
        *,
        timing: Timing,
        proposal_timeout_ms: int,
        roll: Callable[[], tuple[int, int] | None],
        notice: Notice = unnoticed,
        mirror: OffsetsMirror | None = None,
    ) -> None:
        super().__init__(
            group, loop, deadlines, state, shard, timing=timing, proposal_timeout_ms=proposal_timeout_ms, roll=roll
        )
        self.shard = shard
        self._leaders = leaders
        self._parking = Parking(deadlines)
        self._open: OpenRequests[tuple[GroupRequest, AnswerCall]] = OpenRequests(deadlines, self._too_late)
        self._notice = notice
        self._mirror = mirror
        self._unsent: deque[Answer] = deque()
        """Answers left for later turns. Invariant: all that they promise is applied."""
        self._slicing = False
        """Answers were left for later turns, and `_answer_more` runs in the next one: until it finds none, further ones
        are left too, or one turn would answer a slice of each."""
        self.requests = 0
        """Requests that were received since the start."""
        self._verifying = 0
        self._open_from, self._open_since_ms = shard.first_open_offset(), loop.monotonic_ms()
        """Where the oldest open transaction began, -1 for none, and since when it has been the oldest."""

    # -- requests --------------------------------------------------------------------------------------------------

    def request(self, request: GroupRequest, context: RequestContext, done: AnswerCall) -> None:
        """See `surface.Surface.group_request`."""
        group = self.group
        self.requests += 1
        if not group.leads:
            done(refusal(request, Code.NOT_COORDINATOR))
        elif not group.serves or group.transferring or len(self._parking):
            self._parking.park(self._loop.monotonic_ms(), context.deadline_ms, request, done)
        elif context.deadline_ms <= self._loop.monotonic_ms():
            done(refusal(request, Code.COORDINATOR_NOT_AVAILABLE))
        else:
            self._serve(request, done)

    def heartbeat_at_once(self, request: Heartbeat, times: int) -> Code | None:
        """See `surface.Surface.heartbeat_at_once`."""
        group = self.group
        if not group.serves or group.transferring or len(self._parking):
            return None
        code = self.shard.heartbeat_at_once(self._loop.monotonic_ms(), request)
        if code in DENIALS:
            return None  # nothing has changed; `request` must confirm the denial by a ReadIndex round
        if code is not None:
            self.requests += times
        return code

    def transactional_commit(
        self, request: TxnOffsetCommit, context: RequestContext, verify: Verify, done: AnswerCall
    ) -> None:
        """See `surface.Surface.transactional_commit`."""
        group = self.group
        if group.leads and not group.serves:
            # Not parked: a marker may lie ahead of what is applied, so a verification can begin only later.
            done(refusal(request, Code.COORDINATOR_LOAD_IN_PROGRESS))
            return
        verification = self.shard.begin_verification(request.producer_id, request.producer_epoch) if group.leads else 0
        if not verification:
            self.request(request, context, done)
        elif self._verifying >= limits.GROUP_VERIFICATIONS_MAX:
            self.shard.end_verification(request.producer_id, verification)
            done(refusal(request, Code.COORDINATOR_NOT_AVAILABLE))
        else:
            self._verifying += 1
            verify(partial(self._verified, request, verification, group.core.term, context, done))

    def _verified(
        self,
        request: TxnOffsetCommit,
        verification: int,
        term: int,
        context: RequestContext,
        done: AnswerCall,
        code: Code,
    ) -> None:
        self._verifying -= 1
        group = self.group

        def answered(answer: GroupAnswer) -> None:
            self.shard.end_verification(request.producer_id, verification)
            self._hand_over(done, answer)

        if not group.serves or group.core.term != term:
            answered(refusal(request, Code.NOT_COORDINATOR))
        elif code is not Code.NONE:
            answered(refusal(request, client_code(code)))
        else:
            self.request(request._replace(verification=verification), context, answered)

    def open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """See `surface.LocalLog.open_transaction`."""
        return self.shard.open_transaction(producer_id, producer_epoch)

    def write_marker(self, marker: TransactionMarker, deadline_ms: int, done: Callable[[Code], None]) -> None:
        """See `surface.LocalLog.write_marker`."""
        if not self.group.serves or self.group.transferring:
            done(Code.NOT_LEADER_OR_FOLLOWER)
            return
        if deadline_ms <= self._loop.monotonic_ms():
            done(Code.REQUEST_TIMED_OUT)
            return
        answered = False

        def once(code: Code) -> None:
            nonlocal answered
            if not answered:
                answered = True
                timer.cancel()
                done(code)

        def written(answer: GroupAnswer) -> None:
            assert isinstance(answer, WriteMarkerAnswer)
            code = Code(answer.error)
            once(_NOT_WRITTEN.get(code, code))

        timer = self._loop.call_at(deadline_ms, lambda: once(Code.REQUEST_TIMED_OUT))
        self._handle(WriteMarker(marker), written)

    def _serve(self, request: GroupRequest, done: AnswerCall) -> None:
        if isinstance(request, READS):
            self.group.read_index(partial(self._read, request, done))
        else:
            self._handle(request, done)

    def _read(self, request: GroupRequest, done: AnswerCall, confirmed: bool) -> None:
        if confirmed:
            answer = self.shard.fetched(request) if isinstance(request, OffsetFetch) else None
            if answer is None:
                self._handle(request, done)
            else:
                self._hand_over(done, answer)
        else:
            code = Code.COORDINATOR_NOT_AVAILABLE if self.group.leads else Code.NOT_COORDINATOR
            self._hand_over(done, refusal(request, code))

    def _handle(self, request: GroupRequest, done: AnswerCall) -> None:
        ticket = self._open.open((request, done))
        now = self._now()
        self._run(self.shard.handle(now, ticket, request))
        if ticket in self._open and not isinstance(request, MAY_WAIT_LONG):
            self._open.limit(ticket, now.monotonic_ms + self._proposal_timeout_ms)
        self._arm()

    def _too_late(self, opened: tuple[GroupRequest, AnswerCall]) -> None:
        request, done = opened
        self._hand_over(done, refusal(request, Code.COORDINATOR_NOT_AVAILABLE))

    # -- effects ---------------------------------------------------------------------------------------------------

    @override
    def _run(self, effects: list[Effect]) -> None:
        """All proposals are made now, and `GROUP_ANSWERS_PER_TURN` answers leave; the others leave in later turns."""
        if len(effects) == 1 and isinstance(effects[0], Answer) and not self._slicing:
            self._answer(effects[0])  # the usual case: a heartbeat
            if self.shard.untold:
                self._tell()
            return
        work = deque(effects)
        if self.shard.untold:
            self._tell()
        budget = limits.GROUP_ANSWERS_PER_TURN
        while work:
            effect = work.popleft()
            if not isinstance(effect, Answer):
                work.extend(self._append(effect))
            elif self._resigning or (budget and not self._slicing):
                budget -= 1
                self._answer(effect)
            else:
                if not self._slicing:
                    self._slicing = True
                    self._loop.call_soon(self._answer_more)
                self._unsent.append(effect)

    def _tell(self) -> None:
        for event in self.shard.take_events():
            self.group.tell(event.kind, **event.fields)
        for fault in self.shard.take_faults():
            self._notice(
                "a request failed for a fault of this coordinator",
                {
                    "raft_group": int(self.group.number),
                    "during": fault.during,
                    "consumer_group": fault.group[:LOGGED_CHARS_MAX],
                },
                fault.error,
            )

    def _answer_more(self) -> None:
        """Once more after the last of them: what comes in that turn leaves in the next one."""
        self._slicing = bool(self._unsent)
        for _ in range(min(limits.GROUP_ANSWERS_PER_TURN, len(self._unsent))):
            self._answer(self._unsent.popleft())
        if self._slicing:
            self._loop.call_soon(self._answer_more)

    def _answer(self, effect: Answer) -> None:
        opened = self._open.take(effect.ticket)
        if opened is None:
            return  # answered by `_too_late`
        request, done = opened
        if self._resigning:
            self._answer_when_leader_known(done, effect.answer)
        elif denies(effect.answer):
            self.group.read_index(partial(self._denied, request, done, effect.answer))
        else:
            self._hand_over(done, effect.answer)

    def _denied(self, request: GroupRequest, done: AnswerCall, answer: GroupAnswer, confirmed: bool) -> None:
        """The round that confirms a denial is over. It began after the decision, so no other replica led when that was
        made."""
        if confirmed:
            self._hand_over(done, answer)
        else:
            self._answer_when_leader_known(done, refusal(request, Code.NOT_COORDINATOR))

    def _hand_over(self, done: AnswerCall, answer: GroupAnswer) -> None:
        """Give the answer to the requester's callback. An error in it is logged, and does not concern this shard."""
        try:
            done(answer)
        except Exception as error:
            if ends_process(error):
                raise
            self._notice("an answer could not be made", {"answer": type(answer).__name__}, error)

    def _answer_when_leader_known(self, done: AnswerCall, answer: GroupAnswer) -> None:
        self._leaders.when_known(self.group.number, COORDINATOR_LOOKUP_WAIT_MS, lambda: self._hand_over(done, answer))

    def _append(self, effect: Append) -> list[Effect]:
        try:
            batch = proven_batch(effect)
        except Unprovable as error:
            return self.shard.unprovable(self._now(), effect.token, error)
        return self._propose(batch, effect.token)

    # -- raft_group.Machine ----------------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> object:
        if entry.kind == EntryKind.NORMAL:
            self.shard.apply(self._now(), self.state.append(entry))
            if self._mirror is not None and (changes := self.shard.take_changes()):
                self._mirror.changed(self, changes)
            if self.shard.first_open_offset() != self._open_from:
                self._note_oldest()
        else:
            self.state.command(entry)
        return None

    def _note_oldest(self) -> None:
        self._open_from, self._open_since_ms = self.shard.first_open_offset(), self._loop.monotonic_ms()

    def open_transactions(self) -> OpenTransactions | None:
        """What the last stable offset waits for, on a leader."""
        if self._open_from < 0 or not self.group.serves:
            return None
        open_ms = self._loop.monotonic_ms() - self._open_since_ms
        return OpenTransactions(self.group.number, open_ms, self.state.next_offset - self._open_from)

    @override
    def lead(self, term: int) -> None:
        super().lead(term)
        self._unpark()
        if self._mirror is not None:
            self.shard.note_changes(True)
            self._mirror.began(self)

    def _unpark(self) -> None:
        for request, done in self._parking.take():
            self._serve(request, done)

    @override
    def resign(self) -> None:
        if self._mirror is not None:
            self.shard.note_changes(False)
            self._mirror.ended(self)
        while self._unsent:
            self._answer(self._unsent.popleft())
        super().resign()
        for request, done in self._parking.take():
            self._answer_when_leader_known(done, refusal(request, Code.NOT_COORDINATOR))
        unanswered = self._open.take_all()
        assert not unanswered, "every ticket is answered when leadership is lost"

    @override
    def moved(self) -> None:
        super().moved()
        if len(self._parking) and self.group.serves and not self.group.transferring:
            self._unpark()

    def topics_gone(self, last_seen_ms: Mapping[str, int]) -> None:
        """Topics of an upstream were deleted (ADR 96)."""
        self._run(self.shard.topics_gone(self._now(), last_seen_ms))
        self._arm()

    def topic_deleted(self, topic_id: bytes) -> None:
        """A topic was deleted (decision 27). The shards of all replicas are told, since a follower may lead later."""
        self._run(self.shard.topic_deleted(self._now(), topic_id))
        self._arm()

    @override
    def restore(self, body: CheckpointBody) -> None:
        super().restore(body)
        self._note_oldest()
