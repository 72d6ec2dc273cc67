"""Controller commands from any replica to the controller's leader, and this broker's producer ids.

Problem: clients send CreateTopics to any broker, but only the controller's leader can propose it. Mechanism: another
replica forwards the encoded command over the link and passes its result on. A command that certainly was not proposed
(no leader is known, or the receiver does not lead) is tried again for `FIND_LEADER_MS`, then answered NOT_CONTROLLER
(41). Once it may have been proposed, it is answered with its result or with REQUEST_TIMED_OUT (7) only. The leader's
read index is requested in the same way, without a proposal. A command of a later feature level than the image's is
refused before it is proposed: a replica of the release before would stop at it. What it does not do: execute commands,
or judge them otherwise (`controller.machine`).
"""

from collections import deque
from collections.abc import Callable

from muster_coordinator.controller.codec import (
    READ_INDEX,
    decode_command,
    decode_result,
    encode_command,
    encode_result,
)
from muster_coordinator.controller.commands import AllocateProducerIds, Command, CommandResult
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.errors import Code, Corruption, UnsupportedFormat, WireError
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId
from muster_coordinator.limits import PRODUCER_ID_BLOCK
from muster_coordinator.links import channels
from muster_coordinator.ports import Loop, PeerNet, Timer
from muster_coordinator.replica import limits
from muster_coordinator.replica.controller.controller_group import ControllerGroup, Done
from muster_coordinator.replica.multiraft import payloads
from muster_coordinator.replica.multiraft.leaders import Leaders

FIND_LEADER_MS = 1_000
RETRY_MS = 50
NO_CONTROLLER = CommandResult(Code.NOT_CONTROLLER, "no controller leader is known")
LATE = CommandResult(Code.REQUEST_TIMED_OUT, "the command was sent, its fate is unknown")
PRODUCER_IDS_PARKED_MAX = 10_000


class _Call:
    """One command that is not answered yet."""

    __slots__ = ("command", "deadline_ms", "done", "find_until_ms", "peer", "timer")

    def __init__(self, command: bytes, deadline_ms: int, find_until_ms: int, done: Done) -> None:
        self.command = command
        self.deadline_ms = deadline_ms
        self.find_until_ms = find_until_ms
        self.done = done
        self.timer: Timer | None = None
        self.peer: BrokerId | None = None


class ControllerClient:
    """See the module."""

    def __init__(
        self, loop: Loop, net: PeerNet, broker: BrokerId, leaders: Leaders, controller: ControllerGroup
    ) -> None:
        self._loop = loop
        self._net = net
        self._broker = broker
        self._leaders = leaders
        self._controller = controller
        self._calls: dict[int, _Call] = {}
        self._next_call = 0
        self._served = 0
        """How many forwarded commands of peers are not answered yet."""
        self._ids_next = 0
        self._ids_end = 0
        self._ids_asked = False
        self._ids_parked: deque[Callable[[int], None]] = deque()

    # -- submitting ------------------------------------------------------------------------------------------------

    def submit(self, command: Command, *, deadline_ms: int, done: Done) -> None:
        """See `surface.Surface.submit`."""
        early = level_refusal(self._controller.machine.cluster, command)
        if early is not None:
            done(early)
            return
        now_ms = self._loop.monotonic_ms()
        find_until_ms = min(deadline_ms, now_ms + FIND_LEADER_MS)
        self._try(_Call(encode_command(command), deadline_ms, find_until_ms, done))

    def read_index(self, *, deadline_ms: int, done: Done) -> None:
        """Request the leader's read index. The result's value is an index that covers all entries committed before this
        call; errors as of `submit`, and 35 from a leader of an older release."""
        find_until_ms = min(deadline_ms, self._loop.monotonic_ms() + FIND_LEADER_MS)
        self._try(_Call(READ_INDEX, deadline_ms, find_until_ms, done))

    def _try(self, call: _Call) -> None:
        if self._loop.monotonic_ms() >= call.deadline_ms:
            call.done(NO_CONTROLLER)
            return
        group = self._controller.group
        if group.serves:
            if call.command == READ_INDEX:
                self._controller.read(lambda result: self._read_here(call, result))
                return
            if self._propose(call):
                return
        elif self._forward(call):
            return
        self._try_later(call)

    def _propose(self, call: _Call) -> bool:
        """Propose the command here; this replica leads."""
        answered = False

        def once(result: CommandResult) -> None:
            nonlocal answered
            if not answered:
                answered = True
                timer.cancel()
                call.done(result)

        refused = self._controller.propose_bytes(call.command, once)
        if refused is not None:
            return False
        timer = self._loop.call_at(call.deadline_ms, lambda: once(LATE))
        return True

    def _read_here(self, call: _Call, result: CommandResult) -> None:
        if result.error == Code.NOT_CONTROLLER:
            self._try_later(call)
        else:
            call.done(result)

    def _forward(self, call: _Call) -> bool:
        leader = self._leaders.of(CONTROLLER_GROUP).leader
        if leader is None or leader == self._broker or len(self._calls) >= limits.FORWARDED_REQUESTS_MAX:
            return False
        self._next_call += 1
        number = self._next_call
        wait_ms = min(call.deadline_ms - self._loop.monotonic_ms(), limits.FORWARD_TIMEOUT_MS)
        if not self._net.send(leader, channels.FORWARD, payloads.encode_command(number, wait_ms, call.command)):
            return False
        call.peer = leader
        call.timer = self._loop.call_at(call.deadline_ms, lambda: self._finish(number, LATE))
        self._calls[number] = call
        return True

    def _try_later(self, call: _Call) -> None:
        now_ms = self._loop.monotonic_ms()
        if now_ms >= call.find_until_ms:
            call.done(NO_CONTROLLER)
        else:
            self._loop.call_at(min(now_ms + RETRY_MS, call.find_until_ms), lambda: self._try(call))

    def _finish(self, number: int, result: CommandResult) -> None:
        call = self._calls.pop(number, None)
        if call is not None:
            if call.timer is not None:
                call.timer.cancel()
            call.done(result)

    def peer_down(self, peer: BrokerId) -> None:
        """The link to `peer` is down: the fate of the commands forwarded to it is unknown."""
        for number in [number for number, call in self._calls.items() if call.peer == peer]:
            self._finish(number, LATE)

    def result(self, peer: BrokerId, payload: bytes) -> None:
        """A peer answers a forwarded command."""
        number, data = payloads.decode_result(payload)
        call = self._calls.get(number)
        if call is None or call.peer != peer:
            return
        try:
            result = decode_result(data)
        except (Corruption, UnsupportedFormat) as error:
            raise WireError(str(error)) from error
        if result.error != Code.NOT_CONTROLLER:
            self._finish(number, result)
            return
        # The command certainly was not proposed: look for the leader again.
        del self._calls[number]
        if call.timer is not None:
            call.timer.cancel()
        call.peer = call.timer = None
        self._try_later(call)

    # -- serving peers ---------------------------------------------------------------------------------------------

    def forwarded(self, peer: BrokerId, payload: bytes) -> None:
        """A peer forwards a command to be proposed here."""
        number, wait_ms, command = payloads.decode_command(payload)
        reads = command == READ_INDEX
        try:
            early = None if reads else level_refusal(self._controller.machine.cluster, decode_command(command))
        except UnsupportedFormat as error:
            self._reply(peer, number, CommandResult(Code.UNSUPPORTED_VERSION, str(error)))
            return
        except Corruption as error:
            raise WireError(str(error)) from error
        if early is not None:
            self._reply(peer, number, early)
            return
        group = self._controller.group
        refused = not group.serves or self._served >= limits.FORWARDED_REQUESTS_MAX or wait_ms == 0

        def done(result: CommandResult) -> None:
            self._served -= 1
            self._reply(peer, number, result)

        if reads and not refused:
            self._served += 1
            self._controller.read(done)
            return
        if not refused and self._controller.propose_bytes(command, done) is None:
            self._served += 1
            return
        self._reply(peer, number, NO_CONTROLLER)

    def _reply(self, peer: BrokerId, number: int, result: CommandResult) -> None:
        self._net.send(peer, channels.FORWARD, payloads.encode_result(number, encode_result(result)))

    # -- producer ids ----------------------------------------------------------------------------------------------

    def producer_id(self, image: ClusterImage | None, done: Callable[[int], None]) -> None:
        """A new id from this broker's block; -1 if none is available now."""
        if self._ids_next < self._ids_end and not self._ids_parked:
            self._ids_next += 1
            done(self._ids_next - 1)
            return
        if image is None or len(self._ids_parked) >= PRODUCER_IDS_PARKED_MAX:
            done(-1)
            return
        self._ids_parked.append(done)
        self._ask_for_ids()

    def _ask_for_ids(self) -> None:
        if self._ids_asked:
            return
        self._ids_asked = True
        deadline_ms = self._loop.monotonic_ms() + limits.FORWARD_TIMEOUT_MS
        self.submit(AllocateProducerIds(broker=self._broker), deadline_ms=deadline_ms, done=self._allocated)

    def _allocated(self, result: CommandResult) -> None:
        self._ids_asked = False
        if result.error != Code.NONE:
            parked, self._ids_parked = self._ids_parked, deque()
            for done in parked:
                done(-1)
            return
        self._ids_next, self._ids_end = result.value, result.value + PRODUCER_ID_BLOCK
        while self._ids_parked and self._ids_next < self._ids_end:
            self._ids_next += 1
            self._ids_parked.popleft()(self._ids_next - 1)
        if self._ids_parked:
            self._ask_for_ids()
