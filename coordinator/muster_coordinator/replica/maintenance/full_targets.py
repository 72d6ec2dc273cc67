"""Cancels the moves to this replica for which its disk has no room (ADR 46).

Problem: a copy that would leave too little of the disk waits. If nobody frees any, the move would stand for ever, take
one of the few places that moves have, and nobody would be asked where else the replica could go. Mechanism: only the
target knows, so it looks each `LOOK_MS`. When the copy of one and the same move has waited for `room_timeout_ms` on
end, it has the controller cancel that move: those who had the partition keep it, and what was copied is removed as
after any other move that is taken back. Somebody who wants something else meanwhile is not touched (`CancelMove`).

What this does not do: cancel what nobody else could do in this broker's place, a copy to a folder that replaces a lost
one or to a replica that fell far behind; or choose another target (`controller.balancing`, if it was the balancer's
move).
"""

from typing import NamedTuple

from muster_coordinator.controller.commands import CancelMove, CommandResult
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.errors import Code
from muster_coordinator.events import MOVE_CANCELLED
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.ports import Loop
from muster_coordinator.replica.limits import FORWARD_TIMEOUT_MS
from muster_coordinator.replica.maintenance.membership import Submit, spelled
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.raft_group import RaftGroup

LOOK_MS = 1_000
NEVER_MS = -1


class _Lack(NamedTuple):
    move: CancelMove
    since_ms: int


class FullTargets:
    """See the module. `room_timeout_ms` may be `NEVER_MS`."""

    def __init__(
        self, loop: Loop, host: Host, controller: ControllerMachine, submit: Submit, room_timeout_ms: int
    ) -> None:
        self._loop = loop
        self._host = host
        self._controller = controller
        self._submit = submit
        self._room_timeout_ms = room_timeout_ms
        self._lacking: dict[GroupNo, _Lack] = {}
        """Moves to this replica that wait for room."""
        self._asked: set[GroupNo] = set()
        """Groups for which the controller's leader was asked, and did not answer yet."""

    def start(self) -> None:
        if self._room_timeout_ms != NEVER_MS:
            self._look_later()

    def _look_later(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + LOOK_MS, self._look)

    def _look(self) -> None:
        self._look_later()
        image, now_ms = self._controller.cluster, self._loop.monotonic_ms()
        lacks = {group.number: group for group in self._host.groups.values() if group.lacks_room}
        moves = moves_to(image, self._host.broker) if image is not None and lacks else {}
        lacking: dict[GroupNo, _Lack] = {}
        for number in lacks.keys() & moves.keys():
            known = self._lacking.get(number)
            same = known is not None and known.move == moves[number]
            lacking[number] = known if known is not None and same else _Lack(moves[number], now_ms)
        self._lacking = lacking
        for number in sorted(lacking):
            if now_ms - lacking[number].since_ms >= self._room_timeout_ms and number not in self._asked:
                self._cancel(lacks[number], lacking[number].move)

    def _cancel(self, group: RaftGroup, move: CancelMove) -> None:
        """What is refused or lost is asked again at a later look, if the copy waits then."""
        reason = group.lacks_room

        def done(result: CommandResult) -> None:
            self._asked.discard(group.number)
            if result.error == Code.NONE:
                group.tell(MOVE_CANCELLED, voters=spelled(move.voters), reason=reason)

        self._asked.add(group.number)
        self._submit(move, deadline_ms=self._loop.monotonic_ms() + FORWARD_TIMEOUT_MS, done=done)


def moves_to(image: ClusterImage, broker: BrokerId) -> dict[GroupNo, CancelMove]:
    """The groups that are being moved to a broker which did not have them before -> what cancels that move."""
    return {
        partition.group: CancelMove(topic_id=topic.topic_id, partition=index, voters=partition.voters)
        for topic in image.topics.values()
        for index, partition in enumerate(topic.partitions)
        if partition.moves
        and partition.move is not None
        and broker in partition.voters
        and broker not in partition.move.origin
    }
