"""The groups that a node coordinates, as `group_meter` samples them: shard views, and lag against the local logs.

A group's lag counts the partitions it has committed for: log end (here: what this replica has applied, which a follower
of the topic's partition learns a moment later than its leader) minus committed offset. Partitions of topics that are
not here (topics.mode none) have none.
"""

from collections.abc import Generator, Iterator

from muster_coordinator.admin.group_meter import GroupSample
from muster_coordinator.admin.view import AdminReplica

ROWS_PER_STEP = 100
"""Committed offsets of one group counted before the sweep may rest."""


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
        """Rests every `ROWS_PER_STEP` offsets; None when no committed partition has its log here."""
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
