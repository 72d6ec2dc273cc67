"""DescribeQuorum: the controller group as Kafka's tools see a metadata quorum.

Its offsets are Raft indexes plus one, because Kafka's name the next offset. Only the leader knows the log end of every
voter. Another replica answers what it knows: its own end, for the leader at least the same, and -1 (unknown) for the
others. Observers are the brokers that joined, as far as the group has them as learners.
"""

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import EMPTY_ID, ClusterImage
from muster_coordinator.errors import Code
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId
from muster_coordinator.replica.multiraft.status import GroupStatus
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_TOPIC, _PARTITION = "__cluster_metadata", 0
_UNKNOWN = -1


class Quorum:
    """Handler of DescribeQuorum v0-2."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """The request names Kafka's metadata topic, although no topic of that name exists here. If it names anything
        else, nothing of it is described, as in Kafka."""
        services = self._services
        code = services.cluster_code(context, Operation.DESCRIBE)
        status = services.surface.group_status(CONTROLLER_GROUP) if code is Code.NONE else None
        image = services.surface.image() if code is Code.NONE else None
        if code is Code.NONE and (status is None or image is None):
            code = Code.LEADER_NOT_AVAILABLE
        if status is None or image is None:
            reply({"error_code": code, "error_message": f"refused: {code.name}", "topics": (), "nodes": ()})
            return
        named = [(topic.topic_name, one.partition_index) for topic in request.topics for one in topic.partitions]
        if named == [(_TOPIC, _PARTITION)]:
            topics = [{"topic_name": _TOPIC, "partitions": [self._partition(status, image)]}]
        else:
            unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
            topics = [
                {
                    "topic_name": topic.topic_name,
                    "partitions": [_nobody(one.partition_index, unknown) for one in topic.partitions],
                }
                for topic in request.topics
            ]
        reply({"error_code": code, "error_message": None, "topics": topics, "nodes": _nodes(context, image)})

    def _partition(self, status: GroupStatus, image: ClusterImage) -> Value:
        leadership = self._services.surface.leadership(CONTROLLER_GROUP)
        if leadership.leader is None:
            return _nobody(_PARTITION, Code.LEADER_NOT_AVAILABLE)
        ends = dict(status.match)
        if not ends:
            told = (self._services.surface.broker, leadership.leader)
            ends = dict.fromkeys(told, status.last_index)
        return {
            "partition_index": _PARTITION,
            "error_code": Code.NONE,
            "error_message": None,
            "leader_id": leadership.leader,
            "leader_epoch": leadership.term,
            "high_watermark": status.commit + 1,
            "current_voters": [_member(voter, ends, image) for voter in status.voters],
            "observers": [_member(one, ends, image) for one in status.learners() if one not in status.voters],
        }


def _nobody(number: int, code: Code) -> Value:
    return {
        "partition_index": number,
        "error_code": code,
        "error_message": None,
        "leader_id": -1,
        "leader_epoch": -1,
        "high_watermark": -1,
        "current_voters": (),
        "observers": (),
    }


def _member(one: BrokerId, ends: dict[BrokerId, int], image: ClusterImage) -> Value:
    broker = image.brokers.get(one)
    return {
        "replica_id": one,
        "replica_directory_id": EMPTY_ID if broker is None else broker.replica_uuid,
        "log_end_offset": ends[one] + 1 if one in ends else _UNKNOWN,
    }


def _nodes(context: RequestContext, image: ClusterImage) -> list[Value]:
    """The addresses of all brokers on the client's listener."""
    return [
        {
            "node_id": broker.broker,
            "listeners": [
                {"name": one.listener, "host": one.host, "port": one.port}
                for one in broker.endpoints
                if one.listener == context.listener
            ],
        }
        for broker in image.brokers.values()
    ]
