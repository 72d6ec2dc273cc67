"""Samples of the groups that this replica coordinates, for `group_meter`: group state, and lag against the local logs.

A group's lag is the sum, over the partitions it has committed for, of log end offset minus committed offset. The log
end offset is what this replica has applied; a follower of the topic's partition is a moment behind its leader.
Partitions without a log here (topics.mode none) do not count.
"""

from collections.abc import Generator, Iterator

from muster_coordinator.admin.group_meter import GroupSample
from muster_coordinator.admin.view import AdminReplica

ROWS_PER_STEP = 100
"""Committed offsets of one group that are counted in one step."""


class NodeGroups:
    """`group_meter.GroupSource` over a replica."""

    def __init__(self, replica: AdminReplica) -> None:
        self._replica = replica

    def led_partitions(self) -> tuple[int, ...]:
        return self._replica.offsets_led()

    def samples_of(self, partition: int) -> Iterator[GroupSample | None]:
        for view in self._replica.group_views(partition):
            lag = yield from self._lag(partition, view.group)
            yield GroupSample(view.group, view.state, view.members, view.generation, lag)

    def _lag(self, partition: int, group: str) -> Generator[None, None, int | None]:
        """Yields every `ROWS_PER_STEP` offsets. Returns None when no committed partition has its log here."""
        image = self._replica.image()
        if image is None:
            return None
        lag: int | None = None
        for count, (topic_name, index, offset) in enumerate(self._replica.committed(partition, group), start=1):
            topic = image.topics.get(topic_name)
            bounds = None
            if topic is not None and index < len(topic.partitions):
                bounds = self._replica.log_bounds(topic.partitions[index].group)
            if bounds is not None:
                start, end = bounds
                lag = (lag or 0) + max(0, end - max(offset, start))
            if count % ROWS_PER_STEP == 0:
                yield None
        return lag
