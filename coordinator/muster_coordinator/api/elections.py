"""ElectLeaders: no election is held on request; each partition's answer says why.

A preferred leader that is back takes over its partitions without a request (`replica.maintenance.preferred`); until
then the answer is PREFERRED_LEADER_NOT_AVAILABLE with a message that says so. An unclean election, i.e. of a leader
without all acknowledged records, is what Raft rules out.
"""

from collections.abc import Iterator

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.doubt import ABSENT, UNPROVEN, Doubt
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import ClusterImage, Partition
from muster_coordinator.errors import Code
from muster_coordinator.wire.connection import Exchange
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
        self._answer(context, request, Doubt(self._services.surface, Code.NOT_CONTROLLER), reply)

    def _answer(self, context: RequestContext, request: Value, doubt: Doubt, reply: Exchange) -> None:
        code = self._services.cluster_code(context, Operation.ALTER)
        if code is Code.NONE and request.election_type not in (_PREFERRED, _UNCLEAN):
            code = Code.INVALID_REQUEST
        image = self._services.surface.image() if code is Code.NONE else None
        if code is Code.NONE and image is None:
            code = Code.NOT_CONTROLLER
        if image is None:
            named = request.topic_partitions or ()
            results = [(topic.topic, [(number, code) for number in topic.partitions]) for topic in named]
        elif request.topic_partitions is None:
            results = list(self._all(image, request.election_type))
        else:
            results = [
                (topic.topic, [(n, self._named(image, topic.topic, n, request)) for n in topic.partitions])
                for topic in request.topic_partitions
            ]
            absent = next((said for _, parts in results for _, said in parts if said in ABSENT), Code.NONE)
            if doubt.parks(absent, lambda: self._answer(context, request, doubt, reply)):
                return
            results = [(topic, [(n, doubt.answer(said)) for n, said in parts]) for topic, parts in results]
        reply({"error_code": code, "replica_election_results": [_result(topic, parts) for topic, parts in results]})

    def _all(self, image: ClusterImage, election: int) -> Iterator[tuple[str, list[tuple[int, Code]]]]:
        for topic in image.topics.values():
            needed: list[tuple[int, Code]] = []
            for number, partition in enumerate(topic.partitions):
                code = self._judge(partition, election)
                if code != Code.ELECTION_NOT_NEEDED:
                    needed.append((number, code))
            if needed:
                yield topic.name, needed

    def _named(self, image: ClusterImage, name: str, number: int, request: Value) -> Code:
        topic = image.topics.get(name)
        if topic is None or not 0 <= number < len(topic.partitions):
            return Code.UNKNOWN_TOPIC_OR_PARTITION
        return self._judge(topic.partitions[number], request.election_type)

    def _judge(self, partition: Partition, election: int) -> Code:
        leader = self._services.surface.leadership(partition.group).leader
        if election == _UNCLEAN:
            return Code.ELIGIBLE_LEADERS_NOT_AVAILABLE if leader is None else Code.ELECTION_NOT_NEEDED
        return Code.ELECTION_NOT_NEEDED if leader == partition.preferred else Code.PREFERRED_LEADER_NOT_AVAILABLE


def _result(topic: str, partitions: list[tuple[int, Code]]) -> Value:
    return {
        "topic": topic,
        "partition_result": [
            {"partition_id": number, "error_code": code, "error_message": _MESSAGES.get(code)}
            for number, code in partitions
        ],
    }
