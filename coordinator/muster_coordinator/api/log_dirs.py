"""DescribeLogDirs: this replica's data folder, and the size of each partition in it. Clients ask every broker."""

from collections.abc import Iterable

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import ClusterImage, Topic
from muster_coordinator.errors import Code
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_UNKNOWN_BYTES = -1


class LogDirs:
    """Handler of DescribeLogDirs v1-4."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """All topics, or those of the request; partitions without a replica here are left out, as in Kafka."""
        services = self._services
        code = services.cluster_code(context, Operation.DESCRIBE)
        if code is not Code.NONE:
            reply({"error_code": code, "results": ()})
            return
        image = services.surface.image()
        folder = dict(services.settings.broker_configs).get("log.dirs", "")
        answer: dict[str, Value] = {
            "error_code": code,
            "log_dir": folder,
            "topics": [] if image is None else self._topics(image, request),
            "total_bytes": _UNKNOWN_BYTES,
            "usable_bytes": services.surface.free_bytes(),
        }
        reply({"error_code": code, "results": [answer]})

    def _topics(self, image: ClusterImage, request: Value) -> list[Value]:
        if request.topics is None:
            chosen = ((topic, range(len(topic.partitions))) for topic in image.topics.values())
            return [self._topic(topic, numbers) for topic, numbers in chosen]
        wanted: dict[str, dict[int, None]] = {}
        for named in request.topics:
            wanted.setdefault(named.topic, {}).update(dict.fromkeys(named.partitions))
        known = ((image.topics.get(name), numbers) for name, numbers in wanted.items())
        return [self._topic(topic, numbers) for topic, numbers in known if topic is not None]

    def _topic(self, topic: Topic, numbers: Iterable[int]) -> Value:
        partitions = []
        for number in numbers:
            log = None
            if 0 <= number < len(topic.partitions):
                log = self._services.surface.local_log(topic.partitions[number].group)
            if log is not None:
                # Everything in this log is committed, so the lag is 0; and there are no future replicas.
                size = {"partition_size": log.size_bytes(), "offset_lag": 0, "is_future_key": False}
                partitions.append({"partition_index": number, **size})
        return {"name": topic.name, "partitions": partitions}
