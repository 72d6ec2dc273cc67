"""ElectLeaders: the preferred leader of each partition is to lead it now.

Problem: leadership goes back to the preferred leader by itself, but only when that has been fit for a while
(`replica.maintenance.preferred`), and an administrator who has mended a broker does not want to wait for that.
Mechanism: the leader of each partition's Raft group is asked to hand over, which it does as soon as the preferred
replica is caught up, drains not and has room on its disk. It answers nothing: this request watches who leads, and is
answered when all preferred leaders lead, or at its end. All partitions of a request are watched together.

What this does not do: an unclean election, i.e. of a leader without all acknowledged records, which Raft rules out. And
below `MEMBERS_LEVEL` nobody is asked, since replicas of an earlier release would not understand it.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.changes import until_ms
from muster_coordinator.api.doubt import UNPROVEN, Doubt
from muster_coordinator.api.gather import gather_in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import MEMBERS_LEVEL, ClusterImage, Partition
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.replica.partitions.surface import Surface
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_PREFERRED, _UNCLEAN = 0, 1
_MESSAGES = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: "no such partition",
    Code.NOT_CONTROLLER: UNPROVEN,
    Code.ELECTION_NOT_NEEDED: "the partition needs no election",
    Code.PREFERRED_LEADER_NOT_AVAILABLE: (
        "the preferred broker is away, drains, is not caught up or has little space on its disk; leadership returns to"
        " it without a request once it has been fit for a while"
    ),
    Code.ELIGIBLE_LEADERS_NOT_AVAILABLE: "there is no leader without a quorum, and an unclean leader is never elected",
}


class _Judged(NamedTuple):
    """What is known of one partition of a request."""

    topic: str
    number: int
    code: Code
    partition: Partition | None = None
    """Where there is an election to be held."""


class Elections:
    """Handler of ElectLeaders v0-2."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """The partitions of the request; or, if it asks for all, those that have not the leader they should have."""
        surface = self._services.surface
        ends_ms = min(until_ms(surface, request), surface.loop.monotonic_ms() + limits.ELECTION_MS_MAX)
        code = self._services.cluster_code(context, Operation.ALTER)
        if code is Code.NONE and request.election_type not in (_PREFERRED, _UNCLEAN):
            code = Code.INVALID_REQUEST
        image = surface.image() if code is Code.NONE else None
        if code is Code.NONE and image is None:
            code = Code.NOT_CONTROLLER
        if request.topic_partitions is None:

            def of_all(judged: Sequence[_Judged]) -> None:
                results = [(topic, list(parts)) for topic, parts in groupby(judged, lambda one: one.topic)]
                entries = [_result(topic, parts) for topic, parts in results]
                reply({"error_code": code, "replica_election_results": entries})

            needed = [] if image is None else list(self._all(image, request.election_type))
            self._hold(needed, ends_ms, of_all)
        else:
            self._each(request, code, ends_ms, reply)

    def _each(self, request: Value, code: Code, ends_ms: int, reply: Exchange) -> None:
        """The partitions that the request names, each by itself. `code` is NONE, or what all are answered."""
        named = [(topic.topic, number) for topic in request.topic_partitions for number in topic.partitions]
        doubt = Doubt(self._services.surface, Code.NOT_CONTROLLER)

        def begin(index: int, arrived: Callable[[_Judged], None]) -> None:
            name, number = named[index]
            if code is not Code.NONE:
                arrived(_Judged(name, number, code))
            else:
                self._one(name, number, request.election_type, doubt, arrived)

        def held(judged: Sequence[_Judged]) -> None:
            left = iter(judged)
            results = [_result(t.topic, list(islice(left, len(t.partitions)))) for t in request.topic_partitions]
            reply({"error_code": code, "replica_election_results": results})

        loop = self._services.surface.loop
        gather_in_turns(loop, len(named), begin, lambda judged: self._hold(judged, ends_ms, held))

    def _one(self, name: str, number: int, election: int, doubt: Doubt, done: Callable[[_Judged], None]) -> None:
        image = self._services.surface.image()
        topic = None if image is None else image.topics.get(name)
        if topic is not None and 0 <= number < len(topic.partitions):
            done(self._judge(name, number, topic.partitions[number], election))
            return
        absent = Code.UNKNOWN_TOPIC_OR_PARTITION
        if not doubt.parks(absent, lambda: self._one(name, number, election, doubt, done)):
            done(_Judged(name, number, doubt.answer(absent)))

    def _all(self, image: ClusterImage, election: int) -> Iterator[_Judged]:
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                judged = self._judge(topic.name, number, partition, election)
                if judged.code != Code.ELECTION_NOT_NEEDED:
                    yield judged

    def _judge(self, topic: str, number: int, partition: Partition, election: int) -> _Judged:
        leader = self._services.surface.leadership(partition.group).leader
        if election == _UNCLEAN:
            code = Code.ELIGIBLE_LEADERS_NOT_AVAILABLE if leader is None else Code.ELECTION_NOT_NEEDED
            return _Judged(topic, number, code)
        if leader == partition.preferred:
            return _Judged(topic, number, Code.ELECTION_NOT_NEEDED)
        wanted = partition if leader is not None and self._may_lead(partition.preferred) else None
        return _Judged(topic, number, Code.PREFERRED_LEADER_NOT_AVAILABLE, wanted)

    def _may_lead(self, broker: BrokerId) -> bool:
        """As far as it can be seen from here."""
        surface = self._services.surface
        image = surface.image()
        known = None if image is None else image.brokers.get(broker)
        level = MEMBERS_LEVEL if image is None else image.feature_level
        return known is not None and level >= MEMBERS_LEVEL and not known.draining and surface.alive(broker)

    def _hold(self, judged: Sequence[_Judged], ends_ms: int, done: Callable[[Sequence[_Judged]], None]) -> None:
        wanted = {one.partition.group: one.partition.preferred for one in judged if one.partition is not None}

        def held(left: frozenset[GroupNo]) -> None:
            done(
                [
                    one if one.partition is None or one.partition.group in left else one._replace(code=Code.NONE)
                    for one in judged
                ]
            )

        _Watch(self._services.surface, wanted, ends_ms, held).look()


class _Watch:
    """Of the elections of one request. `done` gets the Raft groups that the preferred replica does not lead at the end.
    An object, as a function that names itself would keep the request for ever."""

    __slots__ = ("_ask_ms", "_done", "_ends_ms", "_left", "_surface")

    def __init__(
        self,
        surface: Surface,
        wanted: dict[GroupNo, BrokerId],
        ends_ms: int,
        done: Callable[[frozenset[GroupNo]], None],
    ) -> None:
        self._surface = surface
        self._left = wanted
        self._ends_ms = ends_ms
        self._ask_ms = surface.loop.monotonic_ms()
        self._done = done

    def look(self) -> None:
        surface, now_ms = self._surface, self._surface.loop.monotonic_ms()
        self._left = {g: broker for g, broker in self._left.items() if surface.leadership(g).leader != broker}
        if not self._left or now_ms >= self._ends_ms:
            self._done(frozenset(self._left))
            return
        if now_ms >= self._ask_ms:
            self._ask_ms = now_ms + limits.ELECTION_ASK_MS
            for group in self._left:
                surface.elect_preferred(group)
        surface.loop.call_at(min(now_ms + limits.ELECTION_LOOK_MS, self._ends_ms), self.look)


def _result(topic: str, judged: Sequence[_Judged]) -> Value:
    entries = [
        {"partition_id": one.number, "error_code": one.code, "error_message": _MESSAGES.get(one.code)} for one in judged
    ]
    return {"topic": topic, "partition_result": entries}
