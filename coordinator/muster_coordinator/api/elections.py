"""ElectLeaders: no election is held on request; each partition's answer says why.

A preferred leader that is back takes over its partitions without a request (`replica.maintenance.preferred`); until
then the answer is PREFERRED_LEADER_NOT_AVAILABLE with a message that says so. An unclean election, i.e. of a leader
without all acknowledged records, is what Raft rules out.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.doubt import UNPROVEN, Doubt
from muster_coordinator.api.gather import gather_in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import ClusterImage, Partition
from muster_coordinator.errors import Code
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_PREFERRED, _UNCLEAN = 0, 1
_MESSAGES = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: "no such partition",
    Code.NOT_CONTROLLER: UNPROVEN,
    Code.ELECTION_NOT_NEEDED: "the partition needs no election",
    Code.PREFERRED_LEADER_NOT_AVAILABLE: (
        "leadership returns to the preferred broker without a request, once that has been up and caught up for a while"
    ),
    Code.ELIGIBLE_LEADERS_NOT_AVAILABLE: "there is no leader without a quorum, and an unclean leader is never elected",
}


class Elections:
    """Handler of ElectLeaders v0-2."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """The partitions of the request; or, if it asks for all, those that have not the leader they should have."""
        code = self._services.cluster_code(context, Operation.ALTER)
        if code is Code.NONE and request.election_type not in (_PREFERRED, _UNCLEAN):
            code = Code.INVALID_REQUEST
        image = self._services.surface.image() if code is Code.NONE else None
        if code is Code.NONE and image is None:
            code = Code.NOT_CONTROLLER
        if request.topic_partitions is None:
            results = [] if image is None else list(self._all(image, request.election_type))
            entries = [_result(topic, [_entry(*part) for part in parts]) for topic, parts in results]
            reply({"error_code": code, "replica_election_results": entries})
        else:
            self._each(request, code, reply)

    def _each(self, request: Value, code: Code, reply: Exchange) -> None:
        """The partitions that the request names, each by itself. `code` is NONE, or what all are answered."""
        named = [(topic.topic, number) for topic in request.topic_partitions for number in topic.partitions]
        doubt = Doubt(self._services.surface, Code.NOT_CONTROLLER)

        def begin(index: int, arrived: Callable[[Value], None]) -> None:
            name, number = named[index]
            if code is not Code.NONE:
                arrived(_entry(number, code))
            else:
                self._one(name, number, request.election_type, doubt, arrived)

        def answered(entries: list[Value]) -> None:
            left = iter(entries)
            results = [_result(t.topic, list(islice(left, len(t.partitions)))) for t in request.topic_partitions]
            reply({"error_code": code, "replica_election_results": results})

        gather_in_turns(self._services.surface.loop, len(named), begin, answered)

    def _one(self, name: str, number: int, election: int, doubt: Doubt, done: Callable[[Value], None]) -> None:
        image = self._services.surface.image()
        topic = None if image is None else image.topics.get(name)
        if topic is not None and 0 <= number < len(topic.partitions):
            done(_entry(number, self._judge(topic.partitions[number], election)))
            return
        absent = Code.UNKNOWN_TOPIC_OR_PARTITION
        if not doubt.parks(absent, lambda: self._one(name, number, election, doubt, done)):
            done(_entry(number, doubt.answer(absent)))

    def _all(self, image: ClusterImage, election: int) -> Iterator[tuple[str, list[tuple[int, Code]]]]:
        for topic in image.topics.values():
            needed: list[tuple[int, Code]] = []
            for number, partition in enumerate(topic.partitions):
                code = self._judge(partition, election)
                if code != Code.ELECTION_NOT_NEEDED:
                    needed.append((number, code))
            if needed:
                yield topic.name, needed

    def _judge(self, partition: Partition, election: int) -> Code:
        leader = self._services.surface.leadership(partition.group).leader
        if election == _UNCLEAN:
            return Code.ELIGIBLE_LEADERS_NOT_AVAILABLE if leader is None else Code.ELECTION_NOT_NEEDED
        return Code.ELECTION_NOT_NEEDED if leader == partition.preferred else Code.PREFERRED_LEADER_NOT_AVAILABLE


def _entry(number: int, code: Code) -> Value:
    return {"partition_id": number, "error_code": code, "error_message": _MESSAGES.get(code)}


def _result(topic: str, entries: list[Value]) -> Value:
    return {"topic": topic, "partition_result": entries}
