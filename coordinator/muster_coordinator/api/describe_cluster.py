"""DescribeCluster and DescribeTopicPartitions: the cluster for administrators (protocol notes 15)."""

from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation, Resource, ResourceType
from muster_coordinator.api.cluster_view import ClusterView
from muster_coordinator.api.doubt import ABSENT, Doubt
from muster_coordinator.api.gather import in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import EMPTY_ID, ClusterImage, Partition
from muster_coordinator.controller.topic_names import name_error
from muster_coordinator.errors import Code
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_BROKERS, _CONTROLLERS = 1, 2


class _Page:
    """One answer to DescribeTopicPartitions under construction."""

    __slots__ = ("_cursor", "left", "next_cursor", "topics")

    def __init__(self, cursor: Value, limit: int) -> None:
        self._cursor = cursor
        self.left = limit
        """Number of partitions that still fit."""
        self.topics: list[dict[str, Value]] = []
        self.next_cursor: dict[str, Value] | None = None
        """Where the next page begins; None: there is none, as far as is known yet."""

    def takes(self, name: str) -> bool:
        """Whether the page has room; if not, the next one begins with this topic."""
        if self.left == 0 and self.next_cursor is None:
            self.next_cursor = {"topic_name": name, "partition_index": 0}
        return self.next_cursor is None

    def first(self, name: str) -> int:
        """The topic's first partition that belongs to this page."""
        of_cursor = self._cursor is not None and self._cursor.topic_name == name
        return max(0, self._cursor.partition_index) if of_cursor else 0

    def add(self, topic: dict[str, Value]) -> None:
        """A described topic, with `more` where the page ends within its partitions."""
        described = len(topic["partitions"])
        self.topics.append(topic)
        self.left -= described
        if topic.pop("more", False):
            name = topic["name"]
            self.next_cursor = {"topic_name": name, "partition_index": self.first(name) + described}


class DescribeCluster:
    """Handlers of both APIs."""

    def __init__(self, services: Services) -> None:
        self._services = services

    # -- DescribeCluster

    def cluster(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """DescribeCluster v0-2. A broker's listener describes no controllers (114). It needs no right, as in Kafka:
        every client finds the brokers by Metadata."""
        code = Code.NONE
        if request.endpoint_type != _BROKERS:
            mismatched = request.endpoint_type == _CONTROLLERS
            code = Code.MISMATCHED_ENDPOINT_TYPE if mismatched else Code.UNSUPPORTED_ENDPOINT_TYPE
        image = self._services.surface.image() if code is Code.NONE else None
        if code is Code.NONE and image is None:
            code = Code.LEADER_NOT_AVAILABLE
        if image is None:
            message = f"refused: {code.name}"
            reply({"error_code": code, "error_message": message, "cluster_id": "", "brokers": ()})
            return
        view = ClusterView(self._services.surface, image, context.listener)
        answer: dict[str, Value] = {
            "error_code": Code.NONE,
            "error_message": None,
            "endpoint_type": request.endpoint_type,
            "cluster_id": image.cluster_id,
            "controller_id": view.controller_id(),
            "brokers": self._brokers(context, request, view),
        }
        if request.include_cluster_authorized_operations:
            answer["cluster_authorized_operations"] = self._services.cluster_operations(context)
        reply(answer)

    @staticmethod
    def _brokers(context: RequestContext, request: Value, view: ClusterView) -> list[Value]:
        brokers = [
            {"broker_id": n.node_id, "host": n.host, "port": n.port, "rack": n.rack, "is_fenced": False}
            for n in view.nodes()
        ]
        if not request.include_fenced_brokers:
            return brokers
        listed = {broker["broker_id"] for broker in brokers}
        for broker in view.image.brokers.values():
            for endpoint in broker.endpoints:
                if endpoint.listener == context.listener and broker.broker not in listed:
                    brokers.append(
                        {
                            "broker_id": broker.broker,
                            "host": endpoint.host,
                            "port": endpoint.port,
                            "rack": broker.rack or None,
                            "is_fenced": True,
                        }
                    )
        return brokers

    # -- DescribeTopicPartitions

    def topic_partitions(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """DescribeTopicPartitions v0: topics by name, up to a number of partitions, and a cursor for the next page."""
        self._page(context, request, Doubt(self._services.surface, Code.LEADER_NOT_AVAILABLE), reply)

    def _page(self, context: RequestContext, request: Value, doubt: Doubt, reply: Exchange) -> None:
        """Before a topic is called unknown, or all are listed, the image is confirmed as current (`doubt`). A list of
        all topics is answered without that proof if there is none."""
        image = self._services.surface.image()
        names = self._names(context, request, image)
        cursor = request.cursor
        if cursor is not None:
            names = [name for name in names if name >= cursor.topic_name]
        view = None if image is None else ClusterView(self._services.surface, image, context.listener)
        page = _Page(cursor, max(1, min(request.response_partition_limit, limits.DESCRIBED_PARTITIONS_MAX)))

        def add(index: int) -> int:
            name = names[index]
            if page.takes(name):
                page.add(self._topic(context, name, page.first(name), page.left, view))
            return 0

        in_turns(
            self._services.surface.loop, len(names), add, lambda: self._paged(context, request, doubt, page, reply)
        )

    def _paged(self, context: RequestContext, request: Value, doubt: Doubt, page: "_Page", reply: Exchange) -> None:
        """All topics are judged."""
        topics, cursor = page.topics, request.cursor
        if cursor is not None and cursor.topic_name not in {topic["name"] for topic in topics}:
            topics.insert(0, _no_topic(Code.INVALID_REQUEST, cursor.topic_name))
        absent = next((topic["error_code"] for topic in topics if topic["error_code"] in ABSENT), Code.NONE)
        absent = absent if request.topics else Code.UNKNOWN_TOPIC_OR_PARTITION
        if doubt.parks(absent, lambda: self._page(context, request, doubt, reply)):
            return
        for topic in topics:
            topic["error_code"] = doubt.answer(topic["error_code"])
        reply({"topics": topics, "next_cursor": page.next_cursor})

    def _names(self, context: RequestContext, request: Value, image: ClusterImage | None) -> list[str]:
        if request.topics:
            return sorted({topic.name for topic in request.topics})
        names = () if image is None else image.topics
        return sorted(name for name in names if self._services.may_topic(context, Operation.DESCRIBE, name))

    def _topic(
        self, context: RequestContext, name: str, first: int, left: int, view: ClusterView | None
    ) -> dict[str, Value]:
        """Up to `left` partitions, from number `first` on."""
        if not self._services.may_topic(context, Operation.DESCRIBE, name):
            return _no_topic(Code.TOPIC_AUTHORIZATION_FAILED, name)
        topic = None if view is None else view.image.topics.get(name)
        if topic is None or view is None:
            invalid = name_error(name) is not None
            return _no_topic(Code.INVALID_TOPIC_EXCEPTION if invalid else Code.UNKNOWN_TOPIC_OR_PARTITION, name)
        indexes = range(first, min(len(topic.partitions), first + left))
        return {
            "error_code": Code.NONE,
            "name": name,
            "topic_id": topic.topic_id,
            "is_internal": topic.internal,
            "partitions": [_partition(i, topic.partitions[i], view) for i in indexes],
            "topic_authorized_operations": self._services.operations(context, Resource(ResourceType.TOPIC, name)),
            "more": first + left < len(topic.partitions),
        }


def _no_topic(code: Code, name: str) -> dict[str, Value]:
    return {"error_code": code, "name": name, "topic_id": EMPTY_ID, "partitions": ()}


def _partition(index: int, partition: Partition, view: ClusterView) -> Value:
    leader = view.leader(partition.group)
    return {
        "error_code": leader.code,
        "partition_index": index,
        "leader_id": leader.leader_id,
        "leader_epoch": leader.epoch,
        "replica_nodes": partition.holders,
        "isr_nodes": view.in_sync(partition, leader),
        "eligible_leader_replicas": [],
        "last_known_elr": [],
        "offline_replicas": [broker for broker in partition.holders if not view.alive(broker)],
    }
