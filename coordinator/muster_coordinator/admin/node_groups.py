"""Samples of the groups that this replica coordinates, for `group_meter`: group state, and lag against the local logs.

A group's lag is the sum, over the partitions it has committed for, of log end offset minus committed offset. The log
end offset is what this replica has applied; a follower of the topic's partition is a moment behind its leader. In
topics in Redis it is the number of records, as Redis was last asked (`replica.partitions.redis_lags`). The sum is as
good as its worst part: one partition of unknown lag makes the group's unknown. Partitions without a log here
(topics.mode none) do not count.
"""

from collections.abc import Generator, Iterator

from muster_coordinator.admin.group_meter import GroupSample
from muster_coordinator.admin.view import AdminReplica
from muster_coordinator.controller.image import ClusterImage, Topic
from muster_coordinator.redis_streams.lag import UNKNOWN, Quality, Records
from muster_coordinator.topics.stores import REDIS, STORE_CONFIG

ROWS_PER_STEP = 100
"""Committed offsets of one group that are counted in one step."""


def in_redis(
    replica: AdminReplica, image: ClusterImage, group: str, topic_name: str, index: int, offset: int
) -> Records | None:
    """What is known of the records behind this offset; None: the partition is not in Redis."""
    topic = image.topics.get(topic_name)
    if topic is None or index >= len(topic.partitions) or (STORE_CONFIG, REDIS.name) not in topic.configs:
        return None
    return replica.records_behind(group, topic, index, offset)


class NodeGroups:
    """`group_meter.GroupSource` over a replica."""

    def __init__(self, replica: AdminReplica) -> None:
        self._replica = replica

    def led_partitions(self) -> tuple[int, ...]:
        return self._replica.offsets_led()

    def samples_of(self, partition: int) -> Iterator[GroupSample | None]:
        for view in self._replica.group_views(partition):
            lag, quality, _ = yield from self._lag(partition, view.group)
            yield GroupSample(view.group, view.state, view.members, view.generation, lag, quality)

    def _lag(self, partition: int, group: str) -> Generator[None, None, Records]:
        """Yields every `ROWS_PER_STEP` offsets. Unknown when no committed partition has its log here."""
        image = self._replica.image()
        if image is None:
            return UNKNOWN
        lag: int | None = None
        qualities = {Quality.EXACT}
        for count, (topic_name, index, offset) in enumerate(self._replica.committed(partition, group), start=1):
            topic = image.topics.get(topic_name)
            if topic is not None and index < len(topic.partitions):
                found = self._in_partition(group, topic, index, offset)
                if found is not None:
                    lag = (lag or 0) + (found.number or 0)
                    qualities.add(found.quality)
            if count % ROWS_PER_STEP == 0:
                yield None
        if lag is None or Quality.UNKNOWN in qualities:
            return UNKNOWN
        return Records(lag, Quality.ESTIMATED if Quality.ESTIMATED in qualities else Quality.EXACT)

    def _in_partition(self, group: str, topic: Topic, index: int, offset: int) -> Records | None:
        """None: its log is elsewhere."""
        if (STORE_CONFIG, REDIS.name) in topic.configs:
            return self._replica.records_behind(group, topic, index, offset)
        bounds = self._replica.log_bounds(topic.partitions[index].group)
        if bounds is None:
            return None
        start, end = bounds
        return Records(max(0, end - max(offset, start)), Quality.EXACT)
