"""The groups that a node coordinates, as `group_meter` samples them: shard views, and lag against the local logs.

A group's lag counts the partitions it has committed for: log end (here: what this replica has applied, which a follower
of the topic's partition learns a moment later than its leader) minus committed offset. Partitions of topics that are
not here (topics.mode none) have none.
"""

from collections.abc import Generator, Iterator

from muster_coordinator.admin.group_meter import GroupSample
from muster_coordinator.replica.node import Node
from muster_coordinator.replica.shards import ShardGroup

ROWS_PER_STEP = 100
"""Committed offsets of one group counted before the sweep may rest."""


class NodeGroups:
    """`group_meter.GroupSource` over a node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def led_partitions(self) -> tuple[int, ...]:
        return self._node.offsets_led()

    def samples_of(self, partition: int) -> Iterator[GroupSample | None]:
        hosting = self._node.hosting
        held = hosting.shards.get(partition) if hosting is not None else None
        if held is None:
            return
        for view in held.shard.views():
            if not _serves(held):
                return
            lag = yield from self._lag(held, view.group)
            yield GroupSample(view.group, view.state, view.members, view.generation, lag)

    def _lag(self, held: ShardGroup, group: str) -> Generator[None, None, int | None]:
        """Rests every `ROWS_PER_STEP` offsets; None when no committed partition has its log here."""
        image = self._node.image()
        hosting = self._node.hosting
        if image is None or hosting is None:
            return None
        lag: int | None = None
        for count, (topic_name, index, offset) in enumerate(held.shard.committed(group), start=1):
            topic = image.topics.get(topic_name)
            if topic is not None and index < len(topic.partitions):
                state = hosting.states.get(topic.partitions[index].group)
                if state is not None:
                    lag = (lag or 0) + max(0, state.next_offset - max(offset, state.log_start))
            if count % ROWS_PER_STEP == 0:
                yield None
        return lag


def _serves(held: ShardGroup) -> bool:
    return held.group is not None and held.group.serves
