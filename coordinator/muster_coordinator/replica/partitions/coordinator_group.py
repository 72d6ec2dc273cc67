"""`raft_group.Machine` of one partition of an internal topic whose leader is a coordinator of groups or transactions.

Problem: a coordinator is a pure state machine. Its log is a partition, only the partition's leader may serve, and what
it decides holds only when it is durable. Mechanism, the same for both kinds:

* A batch is proposed in the turn and term of the call that asked for it (decision 8). If the proposal is refused, the
  coordinator is told by `dropped` at once; if leadership is lost before the batch is applied, by `dropped` then.
* A request that is not answered within the proposal timeout is answered COORDINATOR_NOT_AVAILABLE (15): its fate is
  unknown to the client. The coordinator still learns it, so its state stays right (`OpenRequests`).
* One timer fires at the coordinator's next deadline, and only where a quorum was heard within the election timeout
  (decision 7).

What it does not do: carry out effects, answer clients, or apply entries; `shards` and `transaction_groups` do.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from muster_coordinator.errors import Code
from muster_coordinator.groups.effects import CheckpointBody, CheckpointImage, Now
from muster_coordinator.ports import Loop
from muster_coordinator.raft.messages import EntryKind, Refused
from muster_coordinator.raft.timing import Timing
from muster_coordinator.replica.multiraft.deadlines import Deadlines, Due
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.partitions.partition import PartitionState
from muster_coordinator.replica.partitions.rolls import Rolls

TIMER_RETRY_MS = 100
"""When a timer is retried that fired while the leader had not heard a quorum, or was transferring (decision 7)."""
EffectT = TypeVar("EffectT")
RequestT = TypeVar("RequestT")


class Coordinator(Protocol[EffectT]):
    """The state machine: `groups.shard.GroupShard` or `transactions.coordinator.TransactionCoordinator`."""

    def applied(self, now: Now, token: int) -> list[EffectT]: ...
    def dropped(self, now: Now, token: int, code: Code) -> list[EffectT]: ...
    def lead(self, now: Now, term: int) -> list[EffectT]: ...
    def resign(self, now: Now) -> list[EffectT]: ...
    def on_timer(self, now: Now) -> list[EffectT]: ...
    def next_deadline_ms(self) -> int | None: ...
    def image(self) -> CheckpointImage: ...
    def restore(self, body: CheckpointBody) -> None: ...
    def state_hash(self) -> str: ...


class OpenRequests(Generic[RequestT]):
    """The requests that are not answered yet, by the ticket that the coordinator knows them by."""

    __slots__ = ("_deadlines", "_due", "_late", "_open", "_ticket", "_too_late")

    def __init__(self, deadlines: Deadlines, too_late: Callable[[RequestT], None]) -> None:
        """`too_late`: answer a request whose time is over."""
        self._deadlines = deadlines
        self._too_late = too_late
        self._ticket = 0
        self._open: dict[int, RequestT] = {}
        self._late: deque[tuple[int, int]] = deque()
        """(deadline, ticket), the oldest first: all have the same time. Some are answered."""
        self._due = Due(self._expire)

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, ticket: int) -> bool:
        return ticket in self._open

    def open(self, request: RequestT) -> int:
        """The request's ticket."""
        self._ticket += 1
        self._open[self._ticket] = request
        return self._ticket

    def limit(self, ticket: int, until_ms: int) -> None:
        """The request, if it is still open then, is answered by `too_late`. Invariant: no earlier than the last one."""
        late = self._late
        late.append((until_ms, ticket))
        if len(late) == 1:
            self._deadlines.set(self._due, until_ms)

    def take(self, ticket: int) -> RequestT | None:
        """The request, to be answered now; None: its time was over."""
        return self._open.pop(ticket, None)

    def take_all(self) -> list[RequestT]:
        """All that are open, to be answered now."""
        taken = [*self._open.values()]
        self._open.clear()
        self._late.clear()
        self._deadlines.set(self._due, None)
        return taken

    def _expire(self, now_ms: int) -> None:
        late = self._late
        # Answered requests are removed from the front: they would cause early wake-ups.
        while late and (late[0][0] <= now_ms or late[0][1] not in self._open):
            request = self._open.pop(late.popleft()[1], None)
            if request is not None:
                self._too_late(request)
        self._deadlines.set(self._due, late[0][0] if late else None)


class CoordinatorGroup(ABC, Generic[EffectT]):
    """See the module."""

    def __init__(
        self,
        group: RaftGroup,
        loop: Loop,
        deadlines: Deadlines,
        state: PartitionState,
        machine: Coordinator[EffectT],
        *,
        timing: Timing,
        proposal_timeout_ms: int,
        roll: Callable[[], tuple[int, int] | None],
    ) -> None:
        self.group = group
        self.state = state
        self.rolls = Rolls(state, roll, self.propose_command)
        self._machine = machine
        self._loop = loop
        self._deadlines = deadlines
        self._timing = timing
        self._proposal_timeout_ms = proposal_timeout_ms
        self._due = Due(self._on_timer)
        self._resigning = False
        """Effects of lost leadership are carried out now."""

    @abstractmethod
    def _run(self, effects: list[EffectT]) -> None:
        """Carry out effects, and those that follow from refused proposals."""

    # -- proposals -------------------------------------------------------------------------------------------------

    def _propose(self, batch: bytes, token: int) -> list[EffectT]:
        """Propose a batch; the effects are those of its refusal."""
        refused = self.group.propose(EntryKind.NORMAL, batch, token)
        return [] if refused is None else self._refused(refused, token)

    def _refused(self, refused: Refused, token: int) -> list[EffectT]:
        gone = refused in (Refused.NOT_LEADER, Refused.TERM_CHANGED)
        code = Code.NOT_COORDINATOR if gone else Code.COORDINATOR_NOT_AVAILABLE
        return self._machine.dropped(self._now(), token, code)

    def propose_command(self, data: bytes, done: Callable[[bool], None]) -> bool:
        """Propose a COMMAND that no client asked for; `done(applied)` follows. False: it was refused, and `done` is not
        called."""
        return self.group.propose(EntryKind.COMMAND, data, done) is None

    # -- raft_group.Machine, but for `apply` -------------------------------------------------------------------------

    def proposal_applied(self, token: object, result: object) -> None:
        if isinstance(token, int):
            self._run(self._machine.applied(self._now(), token))
            self._arm()
        else:
            assert callable(token)
            token(True)

    def proposal_lost(self, token: object) -> None:
        if isinstance(token, int):
            self._resigning = True
            self._run(self._machine.dropped(self._now(), token, Code.NOT_COORDINATOR))
            self._resigning = False
        else:
            assert callable(token)
            token(False)

    def lead(self, term: int) -> None:
        self.rolls.said()  # if the proposal is refused, `retention` tries again
        self._run(self._machine.lead(self._now(), term))
        self._arm()

    def resign(self) -> None:
        self.rolls.resign()
        self._resigning = True
        self._run(self._machine.resign(self._now()))
        self._resigning = False
        self._deadlines.set(self._due, None)

    def moved(self) -> None:
        self.state.moved()

    # -- time ------------------------------------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(self._loop.monotonic_ms(), self._loop.wall_ms())

    def _arm(self) -> None:
        if self.group.serves:
            when_ms = self._machine.next_deadline_ms()
            if when_ms != self._due.due_ms:
                self._deadlines.set(self._due, when_ms)

    def _on_timer(self, now_ms: int) -> None:
        """Invariant: members, offsets, transactions and ids expire only on a leader that has heard a quorum within the
        election timeout (decision 7)."""
        group = self.group
        if not group.serves:
            return
        if group.transferring or not group.quorum_heard(now_ms - self._timing.election_min_ms):
            self._deadlines.set(self._due, now_ms + TIMER_RETRY_MS)
            return
        self._run(self._machine.on_timer(self._now()))
        self._arm()

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def image(self) -> CheckpointImage:
        return self._machine.image()

    def restore(self, body: CheckpointBody) -> None:
        self._machine.restore(body)

    def state_hash(self) -> str:
        return self._machine.state_hash()
