"""Carries out what `controller.balancing` plans, on the controller's leader, a few moves at a time (ADR 47).

Problem: moving replicas costs the disks and links that clients use, and is the wrong thing to do while a broker is
merely restarting. Mechanism: the controller's leader looks once a second. It begins nothing to level brokers before
every registered broker has been connected, bound to its folder and not draining for `quiet_ms` on end, all of it in its
leadership; a broker that is to leave is emptied without that wait, since a person said so. At most
`moves_at_once` partitions are moved at a time in the whole cluster, those that people move included. A broker that is
to leave and votes in the controller's group is replaced there by another one. One that holds nothing any more answers
clients for `redirect_ms` more, as seen by this leader, with where the others are, and is unregistered then; one that is
not connected at once. The moves are wanted state like any other, so a leader that dies leaves nothing behind, and the
next one plans anew from what the image says then.

Weights are looked at each `WEIGH_MS`. When nothing is to be moved by counts, and nothing is being moved, one exchange
is begun, whole (ADR 81). The next one waits until it is done, and until the brokers have told what they lead then: a
partition with a new leader is not known before.

A replica is not planned for a broker that has no room for it, as far as brokers have told. What was cancelled, for
want of room (`maintenance.full_targets`) or by a person, is not planned again for `AVOIDED_MS`. Another leader of the
controller's group does not know of that, and may try it once more.

What this does not do: move anything itself (`maintenance.membership` of each group's leader does), or end a move that
does not get on for another reason: it waits for a broker that comes back, or is moved elsewhere when that broker is to
leave.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from muster_coordinator.controller.balancing import Plan, PlannedMove, Planner, plan, voters_resized, voters_without
from muster_coordinator.controller.commands import (
    Command,
    CommandResult,
    MovePartition,
    SetControllerVoters,
    UnregisterBroker,
)
from muster_coordinator.controller.departures import is_emptied
from muster_coordinator.controller.image import MEMBERS_LEVEL, Broker, ClusterImage, Topic
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.controller.weighing import Copy, Decision, Held, Weights, too_large
from muster_coordinator.events import BALANCER_MOVE, BROKER_EMPTIED, CONTROLLER_VOTERS_WANTED
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId
from muster_coordinator.ports import Loop
from muster_coordinator.replica.limits import FORWARD_TIMEOUT_MS
from muster_coordinator.replica.maintenance.membership import Submit
from muster_coordinator.replica.multiraft.host import Host

LOOK_MS = 1_000
AVOIDED_MS = 600_000
"""For so long nothing is copied again to where it was on its way when that was cancelled."""
WEIGH_MS = 10_000
"""Weights are told as often; each look is O(partitions)."""


class State(StrEnum):
    """What the balancer is doing, for people and for the admin API."""

    ELSEWHERE = "elsewhere"
    """Another replica leads the controller's group, and balances."""
    PAUSED = "paused"
    QUIET = "quiet"
    """It waits until the cluster has been whole for a while."""
    MOVING = "moving"
    LEVEL = "level"


class BalancerStatus(NamedTuple):
    state: State
    reason: str = ""
    """What it waits for; of a broker that cannot be emptied also why."""
    moving: int = 0
    """Partitions that are being moved, whoever asked for it."""


class Weighed(NamedTuple):
    """What this leader knew of weights when it looked last."""

    decisions: tuple[Decision, ...] = ()
    """Of bytes, and of what leaders write and send; none: it has not looked yet, or another replica leads."""
    held: tuple[Held, ...] = ()
    exchanges: int = 0
    """How many it has begun since its start."""


_Seen = tuple[frozenset[BrokerId], frozenset[BrokerId], bool, frozenset[Copy]]
"""Who may get replicas, who is connected, whether brokers may be levelled, and what is not to be copied."""


class Balancer:
    """See the module."""

    def __init__(
        self,
        loop: Loop,
        host: Host,
        controller: ControllerMachine,
        submit: Submit,
        moves_at_once: int,
        quiet_ms: int,
        redirect_ms: int,
        weights: Callable[[], Weights],
    ) -> None:
        """`quiet_ms` -1: brokers are never levelled."""
        self._loop = loop
        self._host = host
        self._controller = controller
        self._submit = submit
        self._moves_at_once = moves_at_once
        self._quiet_ms = quiet_ms
        self._redirect_ms = redirect_ms
        self.weights = weights
        """What brokers have told of weights, as far as it counts now."""
        self._weigh_at_ms = 0
        self._cancelled: dict[Copy, int] = {}
        """What was on its way when that was cancelled, and until when it is avoided."""
        self._too_large: frozenset[Copy] = frozenset()
        """What brokers have no room for, by the last weights."""
        self._emptied_since_ms: dict[BrokerId, int] = {}
        """Brokers that are to leave and hold nothing, and when this leader saw that first."""
        self._whole_since_ms: int | None = None
        """Since when every broker is connected, as seen by this leader; None: they are not, or another one leads."""
        self._asked = 0
        """Commands that are not answered yet."""
        self._planned: tuple[Mapping[str, Topic], Mapping[BrokerId, Broker], _Seen, Plan] | None = None
        """The last plan, and what it was made for. Images share what did not change, so the partitions of a cluster in
        which nothing changes are looked through once."""
        self._moving: tuple[Mapping[str, Topic], frozenset[tuple[str, int]]] | None = None
        """The partitions that are being moved by these topics."""
        self.status = BalancerStatus(State.ELSEWHERE)
        self.weighed = Weighed()

    def start(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + LOOK_MS, self._look)

    def _look(self) -> None:
        now_ms = self._loop.monotonic_ms()
        self._loop.call_at(now_ms + LOOK_MS, self._look)
        image = self._controller.cluster
        group = self._host.groups.get(CONTROLLER_GROUP)
        if image is None or group is None or not group.serves or image.feature_level < MEMBERS_LEVEL:
            self._whole_since_ms = None
            self._emptied_since_ms = {}
            self._moving, self._cancelled, self._too_large = None, {}, frozenset()
            self.status = BalancerStatus(State.ELSEWHERE)
            self.weighed = Weighed(exchanges=self.weighed.exchanges)
            return
        self._cancelled = {copy: until for copy, until in self._cancelled.items() if until > now_ms}
        lacks = not_whole(image, self.connected())
        if lacks:
            self._whole_since_ms = None
        elif self._whole_since_ms is None:
            self._whole_since_ms = now_ms
        emptied = (broker for broker in sorted(image.brokers) if is_emptied(image, broker))
        self._emptied_since_ms = {broker: self._emptied_since_ms.get(broker, now_ms) for broker in emptied}
        self.status = self._carry_on(image, lacks or self._too_early(now_ms))

    def _too_early(self, now_ms: int) -> str:
        """Why brokers are not levelled yet although all are there; empty: they may be."""
        if self._quiet_ms < 0:
            return "levelling is switched off (muster.balancer.quiet.ms)"
        left_ms = self._quiet_ms - (now_ms - (now_ms if self._whole_since_ms is None else self._whole_since_ms))
        return f"all brokers have to be there for {-(-left_ms // 1_000)} s more" if left_ms > 0 else ""

    def _carry_on(self, image: ClusterImage, waits: str) -> BalancerStatus:
        """Begin what may begin now. `waits`: why brokers may not be levelled, if so."""
        under_way = self._under_way(image)
        if image.balancer_paused:
            return BalancerStatus(State.PAUSED, "", len(under_way))
        if self._asked:
            return self.status
        takers, may_level = self.takers(image), not waits
        planned = self._plan_of(image, takers, may_level)
        begun = self._begin(planned, under_way)
        begun += self._weigh(image, takers, may_begin=may_level and not (planned.moves or under_way))
        no_voter = self._let_others_vote(image, takers)
        left_ms = self._redirects()
        gone = [broker for broker in self._emptied_since_ms if broker not in left_ms]
        for broker in gone:
            self._let_go(image, broker)
        redirecting = (
            f"broker {broker} is empty, and tells clients for {-(-ms // 1_000)} s more where the others are"
            for broker, ms in left_ms.items()
        )
        stuck = "; ".join(filter(None, (*planned.stuck, no_voter, self._told_cancelled(), *redirecting)))
        if begun or under_way or gone or image.former_voters:
            return BalancerStatus(State.MOVING, stuck, len(under_way) + begun)
        if may_level:
            return BalancerStatus(State.LEVEL, stuck)
        return BalancerStatus(State.QUIET, "; ".join(filter(None, (stuck, waits))))

    def _under_way(self, image: ClusterImage) -> frozenset[tuple[str, int]]:
        known = self._moving
        if known is None or known[0] is not image.topics:
            if known is not None:
                until_ms = self._loop.monotonic_ms() + AVOIDED_MS
                self._cancelled.update(dict.fromkeys(cancelled_in(known[0], known[1], image), until_ms))
            known = self._moving = (image.topics, moving_in(image))
        return known[1]

    def avoided(self) -> frozenset[Copy]:
        """What is not to be copied now."""
        return self._too_large | self._cancelled.keys()

    def _told_cancelled(self) -> str:
        if not self._cancelled:
            return ""
        left_ms = max(self._cancelled.values()) - self._loop.monotonic_ms()
        return f"copies that were cancelled are not tried again for {-(-left_ms // 1_000)} s: {len(self._cancelled)}"

    def _plan_of(self, image: ClusterImage, takers: frozenset[BrokerId], may_level: bool) -> Plan:
        avoided = self.avoided()
        known, seen = self._planned, (takers, self.connected(), may_level, avoided)
        if known is not None and known[0] is image.topics and known[1] is image.brokers and known[2] == seen:
            return known[3]
        planned = plan(image, takers, self._moves_at_once, connected=self.connected(), level=may_level, avoided=avoided)
        self._planned = (image.topics, image.brokers, seen, planned)
        return planned

    def _weigh(self, image: ClusterImage, takers: Collection[BrokerId], *, may_begin: bool) -> int:
        """Look what brokers hold and lead; how many moves of an exchange were begun. An exchange is one whole: brokers
        would not be level by count between its halves."""
        now_ms = self._loop.monotonic_ms()
        if now_ms < self._weigh_at_ms:
            return 0
        self._weigh_at_ms = now_ms + WEIGH_MS
        weights = self.weights()
        self._too_large = too_large(weights)
        planner = Planner(image, takers, connected=self.connected(), weights=weights, avoided=self.avoided())
        self.weighed = Weighed(planner.decisions(), planner.held(), self.weighed.exchanges)
        moves = next(planner.exchanges(), ()) if may_begin else ()
        if moves:
            self.weighed = self.weighed._replace(exchanges=self.weighed.exchanges + 1)
        for move in moves:
            self._move(move)
        return len(moves)

    def _begin(self, planned: Plan, under_way: Collection[tuple[str, int]]) -> int:
        """Ask for the planned moves that there is room for; how many there were."""
        begun, free = 0, self._moves_at_once - len(under_way)
        for move in planned.moves:
            again = (move.topic, move.partition) in under_way
            if not again and move.copies and free <= 0:
                break
            free -= not again and move.copies
            begun += 1
            self._move(move)
        return begun

    def _move(self, move: PlannedMove) -> None:
        self._host.groups[CONTROLLER_GROUP].tell(
            BALANCER_MOVE,
            topic=move.topic,
            moved_partition=move.partition,
            voters=",".join(map(str, move.voters)),
            reason=move.reason,
        )
        self._ask(MovePartition(topic_id=move.topic_id, partition=move.partition, voters=move.voters))

    def _let_others_vote(self, image: ClusterImage, takers: Collection[BrokerId]) -> str:
        """Ask for other voters of the controller's group in the place of those that are to leave, and for more or fewer
        if it is to have them, one change after the other. Why there are none; empty: nobody is needed."""
        voters = voters_without(image, takers)
        if image.controller_voters_wanted and (voters in (None, image.voters)):
            resized = voters_resized(image, takers, self.connected(), self._host.broker)
            if isinstance(resized, str):
                return resized
            voters = resized
        if voters is None:
            return "a voter of the controller's group is to leave, and nobody else can take its place"
        if voters != image.voters and not image.former_voters:
            told = ",".join(map(str, voters))
            self._host.groups[CONTROLLER_GROUP].tell(CONTROLLER_VOTERS_WANTED, voters=told)
            self._ask(SetControllerVoters(voters=voters))
        return ""

    def _redirects(self) -> dict[BrokerId, int]:
        """Empty brokers that go on to tell clients where the others are, and for how many milliseconds more."""
        now_ms, connected = self._loop.monotonic_ms(), self.connected()
        left_ms = {broker: since + self._redirect_ms - now_ms for broker, since in self._emptied_since_ms.items()}
        return {broker: ms for broker, ms in left_ms.items() if ms > 0 and broker in connected}

    def _let_go(self, image: ClusterImage, broker: BrokerId) -> None:
        self._host.groups[CONTROLLER_GROUP].tell(BROKER_EMPTIED, replica=int(broker))
        self._ask(UnregisterBroker(broker=broker, replica_uuid=image.brokers[broker].replica_uuid))

    def _ask(self, command: Command) -> None:
        """What is refused, or lost, is planned anew from what the image says then."""

        def done(_result: CommandResult) -> None:
            self._asked -= 1

        self._asked += 1
        self._submit(command, deadline_ms=self._loop.monotonic_ms() + FORWARD_TIMEOUT_MS, done=done)

    def connected(self) -> frozenset[BrokerId]:
        return frozenset((self._host.broker, *self._host.peers))

    def takers(self, image: ClusterImage) -> frozenset[BrokerId]:
        """Brokers that may get replicas: connected, and with room on their disks, as far as they say."""
        low = {*self._host.low_peers, *((self._host.broker,) if self._host.disk_low else ())}
        return self.connected() & image.brokers.keys() - low


def moving_in(image: ClusterImage) -> frozenset[tuple[str, int]]:
    """The partitions that are being moved: topic and number."""
    return frozenset(
        (topic.name, number)
        for topic in image.topics.values()
        for number, partition in enumerate(topic.partitions)
        if partition.moves
    )


def cancelled_in(
    before: Mapping[str, Topic], moving: Collection[tuple[str, int]], image: ClusterImage
) -> Iterator[Copy]:
    """Of the partitions that were `moving` by the topics before: what was to be copied, and is not wanted any more,
    since the partition is to be where it was."""
    for name, number in moving:
        topic, was = image.topics.get(name), before[name].partitions[number]
        if topic is None or topic.topic_id != before[name].topic_id or was.move is None:
            continue
        if topic.partitions[number].voters == was.move.origin:
            yield from ((was.group, broker) for broker in was.voters if broker not in was.move.origin)


def not_whole(image: ClusterImage, connected: Collection[BrokerId]) -> str:
    """Why brokers are not to be levelled now; empty: the cluster is whole."""
    for number in sorted(image.brokers):
        broker = image.brokers[number]
        if broker.departing:
            continue
        if not broker.bound:
            return f"broker {number} waits for a new data folder"
        if number not in connected:
            return f"broker {number} is not connected"
        if broker.draining:
            return f"broker {number} is draining"
    return ""
