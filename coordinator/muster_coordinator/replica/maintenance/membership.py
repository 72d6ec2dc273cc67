"""Gives the groups that this replica leads the members that the controller's image wants (ADR 38).

Problem: when the folder of a broker was replaced, every group must take the new member in and the old one out, whoever
dies meanwhile. Mechanism: what is wanted stands in the controller's image, and the leader of each group is the one who
carries it out, step by step (`multiraft.reconfiguration`), on every look anew. So a leader that dies leaves nothing
behind but the configuration in the log. At most `GROUPS_AT_ONCE` of the groups led here change at a time, the
controller's first: until it has its new member, one more loss would leave nobody who could decide anything.

Of the partitions that are being moved, only the first few of the whole cluster begin (`in_turn`): by their numbers,
leaving out those that wait for a broker that is away, or that cannot have a leader. Each leader reads that from the
image, and sees links for itself; while two see different ones, a few more may be under way. What has begun goes on.

A partition that is being moved (ADR 42) is complete when a configuration with exactly the wanted members is committed:
its leader says so to the controller, which then lets the others go. So does the controller's own when other brokers are
to vote in its group than before (ADR 45).

What this does not do: choose who is wanted (`controller.image.wanted_members` does), or free the disk of who is gone
(`partitions.moved_away` does).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Protocol

from muster_coordinator.controller.commands import (
    Command,
    CommandResult,
    CompleteControllerVoters,
    CompleteMove,
)
from muster_coordinator.controller.image import (
    MEMBERS_LEVEL,
    ClusterImage,
    Partition,
    members_of,
    observers,
    wanted_members,
)
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.events import MEMBERS_CHANGE, MOVE_COMPLETE
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo, MemberNo, binding_of, broker_of
from muster_coordinator.ports import Loop
from muster_coordinator.raft.quorum import majority
from muster_coordinator.replica.limits import FORWARD_TIMEOUT_MS
from muster_coordinator.replica.maintenance.preferred import is_level
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.multiraft.reconfiguration import Standing, Wanted, next_step

LOOK_MS = 500
GROUPS_AT_ONCE = 2
"""Of the groups led here. Each is a snapshot install."""
OTHERS_FIRST = "other partitions of the cluster are moved first, or a broker that is to have it is away"


class Submit(Protocol):
    """`ControllerClient.submit`."""

    def __call__(self, command: Command, *, deadline_ms: int, done: Callable[[CommandResult], None]) -> None: ...


def wanted_of(image: ClusterImage | None) -> Mapping[GroupNo, Wanted]:
    """The members that each group should have, if they may be others than at its beginning: the controller's, and those
    of partitions that were moved, or all after a folder was replaced. None below `MEMBERS_LEVEL`, where nobody could
    read a change."""
    if image is None or image.feature_level < MEMBERS_LEVEL:
        return {}
    watching = [broker for broker in observers(image) if image.brokers[broker].bound]
    controller = {CONTROLLER_GROUP: Wanted(members_of(image, image.voters), members_of(image, watching))}
    replaced = any(broker.binding for broker in image.brokers.values())
    partitions = {
        partition.group: Wanted(wanted_members(image, partition))
        for topic in image.topics.values()
        for partition in topic.partitions
        if replaced or partition.move is not None
    }
    return controller | partitions


def moves_of(image: ClusterImage) -> Mapping[GroupNo, Command]:
    """Groups whose partitions are being moved, and the controller's if it changes -> what says that it is done."""
    controller: dict[GroupNo, Command] = {}
    if image.former_voters:
        controller[CONTROLLER_GROUP] = CompleteControllerVoters(voters=image.voters)
    return controller | {
        partition.group: CompleteMove(topic_id=topic.topic_id, partition=index, voters=partition.voters)
        for topic in image.topics.values()
        for index, partition in enumerate(topic.partitions)
        if partition.moves
    }


def moving_in(image: ClusterImage) -> Sequence[Partition]:
    """The partitions that are being moved, ascending by their groups."""
    moving = (place for topic in image.topics.values() for place in topic.partitions if place.moves)
    return sorted(moving, key=lambda partition: partition.group)


def in_turn(moving: Sequence[Partition], connected: Collection[BrokerId], most: int) -> frozenset[GroupNo]:
    """The groups whose partitions may begin to move now: of those that are `moving`, ascending by their groups, the
    first `most` that can get on: their target is connected, and so is a majority of the replicas that they had."""

    def can(partition: Partition) -> bool:
        origin = () if partition.move is None else partition.move.origin
        here = sum(broker in connected for broker in origin)
        return here >= majority(len(origin)) and all(voter in connected for voter in partition.voters)

    return frozenset(islice((partition.group for partition in moving if can(partition)), most))


class Membership:
    """See the module."""

    def __init__(
        self, loop: Loop, host: Host, controller: ControllerMachine, submit: Submit, moves_at_once: int
    ) -> None:
        """`moves_at_once`: partitions of the whole cluster."""
        self._loop = loop
        self._host = host
        self._controller = controller
        self._image: ClusterImage | None = None
        self._wanted: Mapping[GroupNo, Wanted] = {}
        """What `_image` wants."""
        self._submit = submit
        self._moves_at_once = moves_at_once
        self._moves: Mapping[GroupNo, Command] = {}
        """Of `_image`."""
        self._moving: Sequence[Partition] = ()
        """Of `_image`, ascending by their groups."""
        self._told: set[GroupNo] = set()
        """Groups for which the controller's leader was told, and did not answer yet."""
        self.held_up: dict[GroupNo, str] = {}
        """Groups led here that lack wanted members, and what they wait for."""

    def start(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + LOOK_MS, self._look)

    def _look(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + LOOK_MS, self._look)
        self.held_up = {}
        wanted = self._wanted_now()
        led = self._led(wanted)
        changing = sum(self._changes(group, wanted[group.number]) for group in led)
        turn = in_turn(self._moving, {self._host.broker, *self._host.peers}, self._moves_at_once)
        most = max(GROUPS_AT_ONCE, self._moves_at_once)
        for group in sorted(led, key=lambda group: group.number):
            self._complete(group, wanted[group.number])
            under_way = not is_settled(group, wanted[group.number])
            if not group.serves or not (under_way or changing < most or group.number == CONTROLLER_GROUP):
                continue
            if isinstance(self._moves.get(group.number), CompleteMove) and not (under_way or group.number in turn):
                self.held_up[group.number] = OTHERS_FIRST
                continue
            if self._carry_on(group, wanted[group.number]) and not under_way:
                changing += 1

    def to_change(self) -> int:
        """How many groups led here have not exactly the wanted members, now."""
        wanted = self._wanted_now()
        return sum(not is_as_wanted(group, wanted[group.number]) for group in self._led(wanted))

    def _wanted_now(self) -> Mapping[GroupNo, Wanted]:
        image = self._controller.cluster
        if image is not self._image:
            self._image, self._wanted = image, wanted_of(image)
            self._moves = {} if image is None else moves_of(image)
            self._moving = [] if image is None else moving_in(image)
        return self._wanted

    def _led(self, wanted: Mapping[GroupNo, Wanted]) -> list[RaftGroup]:
        return [self._host.groups[number] for number in self._host.heartbeats.led() if number in wanted]

    def _changes(self, group: RaftGroup, wanted: Wanted) -> bool:
        """Is a change under way that goes on? One that waits for a member that is away must not hold up the others."""
        config = group.core.config
        return bool(config.outgoing) or any(
            self._standing(group, learner) is not Standing.AWAY
            for learner in config.learners
            if learner not in wanted.observers
        )

    def _carry_on(self, group: RaftGroup, wanted: Wanted) -> bool:
        """Take the group's next step, if it needs one. True: it was begun."""
        members = {*group.core.config.everyone(), *wanted.voters, *wanted.observers}
        step = next_step(group.core.config, wanted, {member: self._standing(group, member) for member in members})
        if step is None:
            return False
        if not step.voters:
            self.held_up[group.number] = step.reason
            return False
        refused = group.change_members(step.voters, step.learners)
        if refused is not None:
            self.held_up[group.number] = refused.name
            return False
        group.tell(
            MEMBERS_CHANGE,
            voters=spelled(step.voters),
            learners=spelled(step.learners),
            reason=step.reason,
        )
        return True

    def _complete(self, group: RaftGroup, wanted: Wanted) -> None:
        """Tell the controller if the group is where it was to be moved, until the image has no such move any more."""
        move = self._moves.get(group.number)
        if move is None or group.number in self._told:
            return
        if not (is_as_wanted(group, wanted) and group.members_committed):
            return
        self._told.add(group.number)
        group.tell(MOVE_COMPLETE, voters=spelled(wanted.voters))
        deadline_ms = self._loop.monotonic_ms() + FORWARD_TIMEOUT_MS
        self._submit(move, deadline_ms=deadline_ms, done=lambda _: self._told.discard(group.number))

    def _standing(self, group: RaftGroup, member: int) -> Standing:
        if member == group.core.node:
            return Standing.LEVEL
        if self._host.peers.get(broker_of(member)) != member:
            return Standing.AWAY
        progress = group.core.progresses.get(member)
        if progress is not None and progress.suspended:
            return Standing.AWAY
        return Standing.LEVEL if is_level(group, progress) else Standing.BEHIND


def is_as_wanted(group: RaftGroup, wanted: Wanted) -> bool:
    """The group has these voters, and no other members than observers."""
    return is_settled(group, wanted) and set(group.core.config.voters) == set(wanted.voters)


def is_settled(group: RaftGroup, wanted: Wanted) -> bool:
    """No change of the group's members is under way."""
    config = group.core.config
    return not config.outgoing and set(config.learners) <= set(wanted.observers)


def spelled(members: Sequence[int]) -> str:
    """Members for people, such as 0,1,2.1: the broker, and after a dot which of its folders, if it is not the first."""
    return ",".join(
        f"{broker_of(member)}.{binding}" if (binding := binding_of(MemberNo(member))) else str(member)
        for member in members
    )
