"""Invariant T4: what every replica's image says of partitions that were placed, at every look (ADR 44).

Clients create topics through any broker while brokers join, drain, lose disks and are replaced. Whatever the proposer
knew of that, a placed partition has as many replicas as were asked for, on distinct brokers; the first is preferred.
"""

from collections.abc import Mapping

from muster_coordinator.controller.image import TRANSACTIONS_TOPIC, ClusterImage, Topic

from tests.sim.cluster import Cluster
from tests.sim.history import Violation

FACTOR = 3
"""`default.replication.factor`, which the transaction log is made with."""


class Placements:
    """`look` at every image now and then."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._seen: dict[int, Mapping[str, Topic]] = {}

    def look(self) -> None:
        for replica in self.cluster.all_up():
            image = replica.node.image()
            if image is not None and self._seen.get(replica.broker) is not image.topics:
                self._seen[replica.broker] = image.topics
                self._judge(image)

    def _judge(self, image: ClusterImage) -> None:
        marks, setup, factors = self.cluster.marks, self.cluster.setup, self.cluster.factors
        for topic in image.topics.values():
            for index, partition in enumerate(topic.partitions):
                if not partition.placed:
                    if not topic.internal:
                        self._say(f"{topic.name}-{index} was not placed at level {image.feature_level}: {partition}")
                    continue
                marks.add("a topic was placed")
                grown = factors - {setup.nodes}
                wanted = {FACTOR, *grown} if topic.name == TRANSACTIONS_TOPIC else factors
                if len({*partition.voters}) != len(partition.voters) or len(partition.members) not in wanted:
                    self._say(f"{topic.name}-{index} has not {sorted(wanted)} replicas: {partition}")
                if partition.preferred != partition.voters[0]:
                    self._say(f"{topic.name}-{index} prefers {partition.preferred}: {partition}")
                if partition.move is None:
                    if any(broker not in image.voters for broker in partition.voters):
                        marks.add("a topic was placed on a broker that joined")
                    racks = {image.brokers[broker].rack for broker in partition.voters if broker in image.brokers}
                    if len(racks) == setup.nodes:
                        marks.add("a topic was placed in as many racks as replicas")

    def _say(self, text: str) -> None:
        self.cluster.violations.append(Violation("T4", text))
