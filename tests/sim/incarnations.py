"""Which topic of a name a replica meant: the ids that its image of the cluster had while it served a request.

Clients that name a topic by its name do not know which one of that name they talked to; its id tells them apart. Images
are looked at when a replica starts, after every entry of the controller's log, and when an answer leaves. Between two
looks an image may change once more (a checkpoint is installed), so a stretch between different looks counts for both.
"""

from typing import NamedTuple

from muster_coordinator.ids import CONTROLLER_GROUP

from tests.sim.cluster import Cluster, Replica
from tests.sim.oracle import Oracle

NEVER_US = 1 << 62


class _Look(NamedTuple):
    at_us: int
    topic_id: bytes | None


class Incarnations:
    """Of the topics of one name, over all replicas and lives; `watch` a cluster before it starts."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.born_us: dict[bytes, int] = {}
        """First seen anywhere: created by then."""
        self.gone_us: dict[bytes, int] = {}
        """First known to be deleted anywhere; no replica that has not got there itself may say so."""
        self.partitions_most = 0
        self._looks: dict[int, list[_Look]] = {}

    def watch(self, cluster: Cluster, oracle: Oracle) -> None:
        def applied(replica: Replica, group: int) -> None:
            if group == CONTROLLER_GROUP:
                self.look(replica)

        cluster.on_started.append(self.look)
        cluster.on_answered.append(lambda op: self.look(cluster.everyone[op.broker]))
        oracle.on_applied.append(applied)

    def look(self, replica: Replica) -> None:
        """Note what this replica's image has now."""
        if replica.life is None:
            return
        image = replica.node.image()
        topic = None if image is None else image.topics.get(self.topic)
        now_us = replica.cluster.world.now_us
        if image is not None:
            for topic_id in self.born_us.keys() & image.deleted_topic_ids:
                self.gone_us.setdefault(topic_id, now_us)
        if topic is not None:
            self.partitions_most = max(self.partitions_most, len(topic.partitions))
        self.note(replica.broker, now_us, None if topic is None else topic.topic_id)

    def note(self, broker: int, now_us: int, topic_id: bytes | None) -> None:
        """One look."""
        if topic_id is not None:
            self.born_us.setdefault(topic_id, now_us)
        looks = self._looks.setdefault(broker, [])
        if len(looks) > 1 and looks[-1].topic_id == looks[-2].topic_id == topic_id:
            looks.pop()  # of a stretch the first and the last look are kept
        looks.append(_Look(now_us, topic_id))

    def during(self, broker: int, since_us: int, until_us: int) -> set[bytes | None]:
        """Ids that the image of `broker` may have had then; None among them: it may have had none."""
        looks = self._looks.get(broker, [])
        before = [look.topic_id for look in looks if look.at_us < since_us][-1:]
        within = [look.topic_id for look in looks if since_us <= look.at_us <= until_us]
        after = [look.topic_id for look in looks if look.at_us > until_us][:1]
        return {*before, *within, *after}

    def existed(self, since_us: int, until_us: int) -> bool:
        """Was one of them there all the time, whoever was asked?"""
        return any(
            born_us <= since_us and until_us < self.gone_us.get(topic_id, NEVER_US)
            for topic_id, born_us in self.born_us.items()
        )
