"""Bytes of the controller's checkpoint: the whole cluster image, and the order in which topics were deleted.

Problem: at the same applied index the checkpoint must have the same bytes on every replica, so that `state_hash` can
compare them. Mechanism: one head, maps written in sorted order, no blobs (the image is read whole at start; 2,000
groups take some 100 KiB). What it does not do: use the disk; `storage.checkpoint` frames and checks these bytes.
"""

from dataclasses import dataclass
from types import MappingProxyType

from muster_coordinator.controller.image import Broker, ClusterImage, Partition, Routing, Topic
from muster_coordinator.controller.packing import Packer, Unpacker
from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.groups.effects import CheckpointBody, CheckpointParts
from muster_coordinator.ids import BrokerId, GroupNo

CHECKPOINT_VERSION = 1


@dataclass(frozen=True, slots=True)
class ControllerCheckpoint:
    """The whole state of a `ControllerMachine` at one applied index."""

    applied: int
    cluster: ClusterImage | None
    deleted: tuple[bytes, ...]
    """Ids of deleted topics, oldest first; the same ids as `cluster.deleted_topic_ids`."""

    def encode(self) -> CheckpointBody:
        p = Packer(CHECKPOINT_VERSION)
        p.i64(self.applied)
        p.u8(self.cluster is not None)
        if self.cluster is not None:
            _put_cluster(p, self.cluster)
            p.many(self.deleted, p.blob)
        return CheckpointBody(p.done(), ())

    def parts(self) -> CheckpointParts:
        return CheckpointParts(self.encode().head, iter(()))


def decode_checkpoint(body: CheckpointBody) -> ControllerCheckpoint:
    """The state in `body`. Raises `UnsupportedFormat` for another version, `Corruption` for malformed bytes."""
    head, blobs = body
    if not head or blobs:
        raise Corruption("a controller checkpoint must have a head and no blobs")
    if head[0] != CHECKPOINT_VERSION:
        raise UnsupportedFormat(f"controller checkpoint version {head[0]}; this binary knows {CHECKPOINT_VERSION}")
    u = Unpacker(head, 1)
    applied = u.i64()
    cluster = None
    deleted: tuple[bytes, ...] = ()
    if u.flag():
        cluster, deleted = _take_cluster(u, applied)
    u.end()
    return ControllerCheckpoint(applied, cluster, deleted)


def _put_cluster(p: Packer, cluster: ClusterImage) -> None:
    p.text(cluster.cluster_id)
    p.i32s(cluster.voters)
    p.many((cluster.brokers[key] for key in sorted(cluster.brokers)), lambda broker: _put_broker(p, broker))
    p.many((cluster.topics[key] for key in sorted(cluster.topics)), lambda topic: _put_topic(p, topic))
    p.i32(cluster.routing.offsets_partitions)
    p.i32(cluster.routing.epoch)
    p.u32(len(cluster.routing.overrides))
    for group_id, partition in cluster.routing.overrides:
        p.text(group_id)
        p.i32(partition)
    p.i32(cluster.feature_level)
    p.u32(cluster.next_group)
    p.i64(cluster.next_producer_id)


def _put_broker(p: Packer, broker: Broker) -> None:
    p.i32(broker.broker)
    p.blob(broker.replica_uuid)
    p.i64(broker.incarnation)
    p.many(broker.endpoints, p.endpoint)
    p.text(broker.admin)
    p.u8(broker.draining)
    p.i32(broker.feature_max)


def _put_topic(p: Packer, topic: Topic) -> None:
    p.text(topic.name)
    p.blob(topic.topic_id)
    p.u8(topic.internal)
    p.configs(topic.configs)
    p.u32(len(topic.partitions))
    for partition in topic.partitions:
        p.u32(partition.group)
        p.i32s(partition.voters)


def _take_cluster(u: Unpacker, applied: int) -> tuple[ClusterImage, tuple[bytes, ...]]:
    cluster_id = u.text()
    voters = _take_voters(u)
    brokers = {broker.broker: broker for broker in u.many(lambda: _take_broker(u))}
    topics = {topic.name: topic for topic in u.many(lambda: _take_topic(u))}
    routing = Routing(
        offsets_partitions=u.i32(),
        epoch=u.i32(),
        overrides=u.many(lambda: (u.text(), u.i32())),
    )
    feature_level = u.i32()
    next_group = GroupNo(u.u32())
    next_producer_id = u.i64()
    deleted = u.many(u.blob)
    cluster = ClusterImage(
        applied=applied,
        cluster_id=cluster_id,
        voters=voters,
        brokers=MappingProxyType(brokers),
        topics=MappingProxyType(topics),
        names_by_id=MappingProxyType({topic.topic_id: topic.name for topic in topics.values()}),
        deleted_topic_ids=frozenset(deleted),
        routing=routing,
        feature_level=feature_level,
        next_group=next_group,
        next_producer_id=next_producer_id,
    )
    return cluster, deleted


def _take_voters(u: Unpacker) -> tuple[BrokerId, ...]:
    return u.many(lambda: BrokerId(u.i32()))


def _take_broker(u: Unpacker) -> Broker:
    return Broker(
        broker=BrokerId(u.i32()),
        replica_uuid=u.blob(),
        incarnation=u.i64(),
        endpoints=u.many(u.endpoint),
        admin=u.text(),
        draining=u.flag(),
        feature_max=u.i32(),
    )


def _take_topic(u: Unpacker) -> Topic:
    name, topic_id, internal, configs = u.text(), u.blob(), u.flag(), u.configs()
    partitions = u.many(lambda: Partition(group=GroupNo(u.u32()), voters=_take_voters(u)))
    return Topic(name=name, topic_id=topic_id, partitions=partitions, configs=configs, internal=internal)
