"""State and effects of a leading shard, shared by all request handlers. The protocol's rules are in the handlers.

A handler is a function `(core, now, ticket, request)`, one file per kind of request. It reads `core.state` (durable,
changed only by apply), keeps volatile state in `core.lives`, and acts through `answer` and `append`. Effects are
collected in the order in which they happen; the call that caused them returns them.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Protocol as Interface

from muster_coordinator.errors import Code
from muster_coordinator.events import Event, EventKind
from muster_coordinator.groups import limits
from muster_coordinator.groups.append_errors import client_code
from muster_coordinator.groups.config import ShardConfig
from muster_coordinator.groups.effects import Answer, Append, Effect, Now
from muster_coordinator.groups.faults import Fault
from muster_coordinator.groups.live.deadlines import Deadlines, Timer, TimerKind
from muster_coordinator.groups.live.inflights import Gate, GroupQueue, InFlightAppend, Waiting, gate_of
from muster_coordinator.groups.live.live_group import LiveGroup
from muster_coordinator.groups.live.producers import ProducersInFlight, Write
from muster_coordinator.groups.requests import GroupAnswer, GroupRequest, refusal
from muster_coordinator.groups.state.shard_state import ShardState
from muster_coordinator.groups.stats import ShardStats
from muster_coordinator.ports import Rand

Record = tuple[bytes | None, bytes | None]


class Step(Enum):
    """Outcome of one slice of a background job."""

    DONE = 0
    MORE = 1
    WAITS = 2
    """The job waits for an in-flight record and will queue itself again."""


class Job(Interface):
    """Work too long for one turn (decision 21): done in slices of `limits.GROUP_SLICE_WORK`."""

    def step(self, core: "Core", now: Now) -> Step: ...


class Core:
    """State of one shard on its leader. `term` is None while not leading."""

    def __init__(self, config: ShardConfig, rand: Rand, handle: Callable[[Now, int, GroupRequest], None]) -> None:
        self.config = config
        self.rand = rand
        self.state = ShardState()
        self.stats = ShardStats()
        self.deadlines = Deadlines()
        self.lives: dict[str, LiveGroup] = {}
        self.queues: dict[str, GroupQueue] = {}
        self.producers = ProducersInFlight()
        self.jobs: deque[Job] = deque()
        self.resting: dict[Timer, Job] = {}
        """Jobs that continue when their timer fires."""
        self.listings: dict[int, GroupRequest] = {}
        """Ticket → ListGroups request that is being answered in slices."""
        self.clock_base_ms = 0
        """Wall clock minus monotonic clock at the last expiry sweep: expiry does not trust a clock that jumped."""
        self.term: int | None = None
        self.faults: list[Fault] = []
        """Contained errors that the host has not taken yet."""
        self.events: list[Event] = []
        """Log events that the host has not taken yet."""
        self._handle = handle
        self._inflights: dict[int, InFlightAppend] = {}
        self._last_token = 0
        self._effects: list[Effect] = []

    def take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def tell(self, kind: EventKind, group: str, generation: int, **fields: object) -> None:
        """Emit a log event about a change that is applied, or about volatile state."""
        self.events.append(Event(kind, {"consumer_group": group, "generation": generation, **fields}))

    def answer(self, ticket: int, answer: GroupAnswer) -> None:
        self._effects.append(Answer(ticket, answer))

    def append(
        self, now: Now, inflight: InFlightAppend, records: tuple[Record, ...], write: Write | None = None
    ) -> None:
        """Propose one batch of records; `inflight` holds what to do once it is applied or dropped. `write`: it belongs
        to a transaction."""
        assert records, "an empty batch"
        queue = self.queue(inflight.group)
        # Invariant: at most one exclusive append of a group is in flight, so each membership change is judged against
        # applied state.
        if inflight.exclusive:
            assert not queue.exclusive, "two membership records of one group in flight"
            queue.exclusive = self._last_token + 1
        else:
            queue.shared += 1
        self._last_token += 1
        self._inflights[self._last_token] = inflight
        if write is None:
            self._effects.append(Append(self._last_token, records, now.wall_ms))
            return
        self.producers.proposed(self._last_token, write)
        self._effects.append(
            Append(self._last_token, records, now.wall_ms, write.producer_id, write.epoch, True, write.control)
        )

    def queue(self, group: str) -> GroupQueue:
        queue = self.queues.get(group)
        if queue is None:
            queue = self.queues[group] = GroupQueue(group)
        return queue

    def admitted(self, ticket: int, request: GroupRequest, group: str) -> bool:
        """True: handle the request now. Else it waits behind its group's in-flight record, or was answered 15 because
        too many requests wait."""
        queue = self.queues.get(group)
        if queue is None:
            return True
        gate = gate_of(request)
        if gate is Gate.NONE or (queue.admits(gate) and not queue.waiting):
            return True
        if len(queue.waiting) >= self.config.waiting_requests_max:
            self.stats.requests_refused_waiting += 1
            self.answer(ticket, refusal(request, Code.COORDINATOR_NOT_AVAILABLE))
        else:
            queue.waiting.append(Waiting(gate, ticket, request, None))
        return False

    def when_quiet(self, now: Now, group: str, call: Callable[[Now], None]) -> None:
        """Call `call` once no record of the group is in flight; requests that arrive later wait behind it."""
        queue = self.queues.get(group)
        if queue is None:
            self._make(now, group, call)
        else:
            queue.waiting.append(Waiting(Gate.QUIET, -1, None, call))

    def applied(self, now: Now, token: int) -> None:
        """A proposed batch was applied. Unknown tokens belong to an earlier leadership and are ignored."""
        inflight = self._land(token)
        if inflight is not None:
            try:
                inflight.on_applied(now)
            except Exception as error:  # noqa: BLE001  # contained: see `faults`
                self._contain_inflight(now, inflight, "a record was applied", error)
            self.drain(now, inflight.group)

    def dropped(self, now: Now, token: int, code: Code) -> None:
        """A proposed batch was not appended, or its fate is unknown because leadership was lost."""
        inflight = self._land(token)
        if inflight is not None:
            try:
                inflight.on_dropped(now, client_code(code))
            except Exception as error:  # noqa: BLE001  # contained: see `faults`
                self._contain_inflight(now, inflight, "a record was dropped", error)
            self.drain(now, inflight.group)

    def unprovable(self, now: Now, token: int, error: Exception) -> None:
        """A batch failed its proof and was not proposed: its requests are answered -1, and its group is rebuilt from
        stored state."""
        inflight = self._land(token)
        if inflight is not None:
            self._contain_inflight(now, inflight, "the proof of a record", error)
            self.drain(now, inflight.group)

    def drain(self, now: Now, group: str) -> None:
        """Handle requests that waited for the group's record, in order; at most GROUP_WAITING_PER_TURN in one turn."""
        queue = self.queues.get(group)
        if queue is None:
            return
        budget = limits.GROUP_WAITING_PER_TURN
        while queue.waiting and queue.admits(queue.waiting[0].gate):
            if not budget:
                self.deadlines.arm(queue.timer, now.monotonic_ms)
                break
            budget -= 1
            head = queue.waiting.popleft()
            if head.request is not None:
                self._handle(now, head.ticket, head.request)
            elif head.call is not None:
                self._make(now, group, head.call)
        if not queue.exclusive:
            deferred, queue.deferred = queue.deferred, []
            for timer in deferred:
                if timer.at_ms is not None:
                    self.deadlines.arm(timer, timer.at_ms)
        self._drop_if_free(queue)

    def _make(self, now: Now, group: str, call: Callable[[Now], None]) -> None:
        try:
            call(now)
        except Exception as error:  # noqa: BLE001  # contained: see `faults`
            self.contain(now, "a job about its group", group, error)

    def _drop_if_free(self, queue: GroupQueue) -> None:
        if queue.free() and self.queues.get(queue.group) is queue:
            self.deadlines.cancel(queue.timer)
            del self.queues[queue.group]

    def rest(self, job: Job, until_ms: int) -> None:
        """Run the job again at a monotonic time."""
        timer = Timer(TimerKind.JOB)
        self.resting[timer] = job
        self.deadlines.arm(timer, until_ms)

    def defers(self, timer: Timer) -> bool:
        """Whether the timer is deferred: its group has a membership record in flight. It is armed again after that."""
        queue = self.queues.get(timer.group)
        if queue is None or not queue.exclusive:
            return False
        timer.at_ms = timer.due_ms
        queue.deferred.append(timer)
        return True

    def retire(self, live: LiveGroup) -> None:
        """Drop the volatile state of a group if it holds nothing that the stored group does not."""
        if live.idle() and self.lives.get(live.id) is live:
            self.forget(live)

    def forget(self, live: LiveGroup) -> None:
        """Drop a group's volatile state with all its timers."""
        del self.lives[live.id]
        for timer in (*live.sessions.values(), *live.pending_members.values()):
            self.deadlines.cancel(timer)
        for timer in (live.join_timer, live.sync_timer, live.pending_rebalance_timer):
            self.deadlines.cancel(timer)

    def contain(self, now: Now, during: str, group: str, error: Exception) -> None:
        """An error escaped a handler of `group` ("": of no group). Keep the error for the log, and drop the group's
        volatile state, which may be half changed."""
        self.stats.faults += 1
        if len(self.faults) < limits.FAULTS_KEPT:
            self.faults.append(Fault(during, group, error))
        if group:
            self._isolate(now, group)

    def answer_once(self, ticket: int, answer: GroupAnswer) -> None:
        """Answer, unless this call has already answered the ticket: a handler that failed half-way may have."""
        if not any(isinstance(effect, Answer) and effect.ticket == ticket for effect in self._effects):
            self.answer(ticket, answer)

    def _contain_inflight(self, now: Now, inflight: InFlightAppend, during: str, error: Exception) -> None:
        for ticket, request in inflight.asked:
            self.answer_once(ticket, refusal(request, Code.UNKNOWN_SERVER_ERROR))
        self.contain(now, during, inflight.group, error)

    def _isolate(self, now: Now, group: str) -> None:
        """Treat this one group as if leadership had ended: its waiting requests are answered 16, records in flight are
        still applied but answer nothing, and the next request rebuilds the group from stored state."""
        code = Code.NOT_COORDINATOR
        for token, inflight in [(t, f) for t, f in self._inflights.items() if f.group == group]:
            self._inflights[token] = InFlightAppend(group, inflight.exclusive, (), _nothing, _ignored)
            with suppress(Exception):  # Only its answers matter; the state it works on is dropped below.
                inflight.on_dropped(now, code)
            for ticket, request in inflight.asked:
                self.answer_once(ticket, refusal(request, code))
        live = self.lives.get(group)
        if live is not None:
            if live.phase is not None:
                for parked in live.phase.parked.values():
                    self.answer_once(parked.ticket, refusal(parked.request, code))
            for ticket, sync in live.syncs.values():
                self.answer_once(ticket, refusal(sync, code))
            self.forget(live)
        queue = self.queues.get(group)
        if queue is not None:
            for waiting in queue.waiting:
                if waiting.request is not None:
                    self.answer_once(waiting.ticket, refusal(waiting.request, code))
            queue.waiting = deque(waiting for waiting in queue.waiting if waiting.call is not None)
            queue.deferred.clear()
            self._drop_if_free(queue)

    def abandon(self) -> None:
        """Leadership is lost: answer every open request with 16 and drop all volatile state."""
        code = Code.NOT_COORDINATOR
        for inflight in self._inflights.values():
            for ticket, request in inflight.asked:
                self.answer(ticket, refusal(request, code))
        for live in self.lives.values():
            if live.phase is not None:
                for parked in live.phase.parked.values():
                    self.answer(parked.ticket, refusal(parked.request, code))
            for ticket, sync in live.syncs.values():
                self.answer(ticket, refusal(sync, code))
        for queue in self.queues.values():
            for waiting in queue.waiting:
                if waiting.request is not None:
                    self.answer(waiting.ticket, refusal(waiting.request, code))
        for ticket, listing in self.listings.items():
            self.answer(ticket, refusal(listing, code))
        self._inflights.clear()
        self.producers.clear()
        self.lives.clear()
        self.queues.clear()
        self.listings.clear()
        self.jobs.clear()
        self.resting.clear()
        self.deadlines = Deadlines()
        self.term = None

    def _land(self, token: int) -> InFlightAppend | None:
        inflight = self._inflights.pop(token, None)
        if inflight is None:
            return None
        self.producers.landed(token)
        queue = self.queues[inflight.group]
        if inflight.exclusive:
            assert queue.exclusive == token
            queue.exclusive = 0
        else:
            assert queue.shared > 0
            queue.shared -= 1
        return inflight


def _nothing(_: Now) -> None:
    """The requests were answered when the group was isolated."""


def _ignored(_: Now, __: Code) -> None:
    """As `_nothing`."""
