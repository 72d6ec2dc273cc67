"""Bytes of the controller's checkpoint: the whole cluster image, and the order in which topics were deleted.

Problem: at the same applied index the checkpoint must have the same bytes on every replica, so that `state_hash` can
compare them, and releases below `MEMBERS_LEVEL` must be able to read those of their levels. Mechanism: one head, maps
written in sorted order, no blobs (the image is read whole at start; 2,000 groups take some 100 KiB). The version is the
level's: racks, bindings and members are in version 2, which is written for images of `MEMBERS_LEVEL` on, and only for
these; version 3 has the same fields, of images from `STREAM_CONFIGS_LEVEL` on, whose topics may have configs that an
earlier release does not know. What it does not do: use the disk; `storage.checkpoint` frames and checks these bytes.
"""

from dataclasses import dataclass, replace
from types import MappingProxyType

from muster_coordinator.controller.access_bytes import put_acls, put_quotas, take_ordered_acls, take_quotas
from muster_coordinator.controller.image import (
    EVERY_BROKER,
    MEMBERS_LEVEL,
    STREAM_CONFIGS_LEVEL,
    Broker,
    ClusterImage,
    Move,
    Partition,
    Routing,
    Topic,
)
from muster_coordinator.controller.moves import VOTER_COUNTS
from muster_coordinator.controller.packing import Packer, Unpacker
from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.groups.effects import CheckpointBody, CheckpointParts
from muster_coordinator.ids import BrokerId, GroupNo, MemberNo, broker_of
from muster_coordinator.security.acl import Acl
from muster_coordinator.security.limits import SCRAM_SECRET_BYTES
from muster_coordinator.security.scram import ScramCredential, ScramMechanism, credential_error, user_name_error

CHECKPOINT_VERSION = 1
"""Of images below `MEMBERS_LEVEL`, and of a cluster that is not formed."""
MEMBERS_VERSION = 2
"""Of images from `MEMBERS_LEVEL` on: brokers with their bindings and racks and whether they are to leave, partitions
with member numbers, whether they were placed, and moves, the brokers that left, whether the balancer is
paused, settings of brokers, how many replicas are wanted, users, ACLs, and quotas."""
STREAMS_VERSION = 3
"""Of images from `STREAM_CONFIGS_LEVEL` on."""
UUID_BYTES = 16
BROKER_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ControllerCheckpoint:
    """The whole state of a `ControllerMachine` at one applied index."""

    applied: int
    cluster: ClusterImage | None
    deleted: tuple[bytes, ...]
    """Ids of deleted topics, oldest first; the same ids as `cluster.deleted_topic_ids`."""

    def encode(self) -> CheckpointBody:
        p = Packer(version_of(self.cluster))
        p.i64(self.applied)
        p.u8(self.cluster is not None)
        if self.cluster is not None:
            _put_cluster(p, self.cluster)
            p.many(self.deleted, p.blob)
        return CheckpointBody(p.done(), ())

    def parts(self) -> CheckpointParts:
        return CheckpointParts(self.encode().head, iter(()))


def version_of(cluster: ClusterImage | None) -> int:
    """The version of an image's level."""
    if cluster is not None and cluster.feature_level >= STREAM_CONFIGS_LEVEL:
        return STREAMS_VERSION
    return MEMBERS_VERSION if cluster is not None and cluster.feature_level >= MEMBERS_LEVEL else CHECKPOINT_VERSION


def decode_checkpoint(body: CheckpointBody) -> ControllerCheckpoint:
    """The state in `body`. Raises `UnsupportedFormat` for a later version, `Corruption` for malformed bytes."""
    head, blobs = body
    if not head or blobs:
        raise Corruption("a controller checkpoint must have a head and no blobs")
    version = head[0]
    if not CHECKPOINT_VERSION <= version <= STREAMS_VERSION:
        raise UnsupportedFormat(f"controller checkpoint version {version}; this binary knows up to {STREAMS_VERSION}")
    u = Unpacker(head, 1)
    applied = u.i64()
    cluster = None
    deleted: tuple[bytes, ...] = ()
    if u.flag():
        cluster, deleted = _take_cluster(u, applied, version)
    u.end()
    if version != version_of(cluster):  # two spellings of one image would part the hashes of the state
        level = "none" if cluster is None else cluster.feature_level
        raise Corruption(f"a controller checkpoint of version {version} holds a cluster of feature level {level}")
    return ControllerCheckpoint(applied, cluster, deleted)


def _put_cluster(p: Packer, cluster: ClusterImage) -> None:
    p.text(cluster.cluster_id)
    p.i32s(cluster.voters)
    version = version_of(cluster)
    p.many((cluster.brokers[key] for key in sorted(cluster.brokers)), lambda broker: _put_broker(p, broker, version))
    p.many((cluster.topics[key] for key in sorted(cluster.topics)), lambda topic: _put_topic(p, topic, version))
    p.i32(cluster.routing.offsets_partitions)
    p.i32(cluster.routing.epoch)
    p.u32(len(cluster.routing.overrides))
    for group_id, partition in cluster.routing.overrides:
        p.text(group_id)
        p.i32(partition)
    p.i32(cluster.feature_level)
    p.u32(cluster.next_group)
    p.i64(cluster.next_producer_id)
    if version >= MEMBERS_VERSION:
        p.u32(len(cluster.unregistered))
        for broker in sorted(cluster.unregistered):
            p.i32(broker)
            p.many(cluster.unregistered[broker], p.blob)
        p.u8(cluster.balancer_paused)
        p.i32s(cluster.former_voters)
        p.u32(len(cluster.broker_configs))
        for broker in sorted(cluster.broker_configs):
            p.i32(broker)
            p.configs(cluster.broker_configs[broker])
        _put_replication(p, cluster)
        _put_users(p, cluster)
        put_acls(p, sorted(cluster.acls))
        put_quotas(p, cluster.quotas)
    else:
        assert not cluster.unregistered, "nobody is unregistered below MEMBERS_LEVEL"
        assert not cluster.balancer_paused, "nothing balances below MEMBERS_LEVEL"
        assert not cluster.former_voters, "nobody ceases to vote below MEMBERS_LEVEL"
        assert not cluster.broker_configs, "no settings of brokers are changed below MEMBERS_LEVEL"
        assert not cluster.replication_factor, "nobody says how many replicas there are below MEMBERS_LEVEL"
        assert not cluster.scram_users, "nobody has a password below MEMBERS_LEVEL"
        assert not cluster.acls, "there are no ACLs below MEMBERS_LEVEL"
        assert not cluster.quotas, "there are no quotas below MEMBERS_LEVEL"


def _put_replication(p: Packer, cluster: ClusterImage) -> None:
    """What is said of numbers of replicas (ADR 48)."""
    p.u8(cluster.replication_factor)
    p.u8(cluster.controller_voters_wanted)
    wishes = [(name, wanted) for name in sorted(cluster.topics) if (wanted := cluster.topics[name].replication_wanted)]
    p.u32(len(wishes))
    for name, wanted in wishes:
        p.text(name)
        p.u8(wanted)


def _take_replication(u: Unpacker, topics: dict[str, Topic]) -> tuple[int, int]:
    """(factor, voters of the controller's group that are wanted); what topics are to have goes into `topics`."""
    factor, voters = u.u8(), u.u8()
    wishes = u.many(lambda: (u.text(), u.u8()))
    names = [name for name, _ in wishes]
    told = {factor, voters} <= {0, *VOTER_COUNTS} and all(wanted in VOTER_COUNTS for _, wanted in wishes)
    if not told or names != sorted(set(names)) or not topics.keys() >= set(names):
        raise Corruption(f"controller bytes: {factor} replicas, {voters} voters and {wishes} of topics are wanted")
    for name, wanted in wishes:
        topics[name] = replace(topics[name], replication_wanted=wanted)
    return factor, voters


def _put_users(p: Packer, cluster: ClusterImage) -> None:
    p.blob(cluster.scram_secret)
    p.u32(len(cluster.scram_users))
    for user in sorted(cluster.scram_users):
        p.text(user)
        p.many(cluster.scram_users[user], lambda credential: _put_credential(p, credential))


def _put_credential(p: Packer, credential: ScramCredential) -> None:
    p.u8(credential.mechanism.value)
    p.i32(credential.iterations)
    p.blob(credential.salt)
    p.blob(credential.stored_key)
    p.blob(credential.server_key)
    p.i64(credential.since)


def _put_broker(p: Packer, broker: Broker, version: int) -> None:
    p.i32(broker.broker)
    p.blob(broker.replica_uuid)
    p.i64(broker.incarnation)
    p.many(broker.endpoints, p.endpoint)
    p.text(broker.admin)
    p.u8(broker.draining)
    p.i32(broker.feature_max)
    if version >= MEMBERS_VERSION:
        p.i32(broker.binding)
        p.many(broker.gone, p.blob)
        p.text(broker.rack)
        p.u8(broker.departing)
    else:
        assert broker.binding == 0, "nobody is replaced below MEMBERS_LEVEL"
        assert not broker.rack, "nobody has a rack below MEMBERS_LEVEL"
        assert not broker.departing, "nobody is decommissioned below MEMBERS_LEVEL"


def _put_topic(p: Packer, topic: Topic, version: int) -> None:
    p.text(topic.name)
    p.blob(topic.topic_id)
    p.u8(topic.internal)
    p.configs(topic.configs)
    p.u32(len(topic.partitions))
    for partition in topic.partitions:
        p.u32(partition.group)
        p.many(partition.members, p.i64 if version >= MEMBERS_VERSION else p.i32)
        move = partition.move
        if version >= MEMBERS_VERSION:
            p.u8(partition.placed)
            p.u8(move is not None)
        else:
            assert move is None, "nothing is moved below MEMBERS_LEVEL"
            assert not partition.placed, "nothing is placed below MEMBERS_LEVEL"
        if move is not None:
            for brokers in move:
                p.i32s(brokers)


def _take_cluster(u: Unpacker, applied: int, version: int) -> tuple[ClusterImage, tuple[bytes, ...]]:
    cluster_id = u.text()
    voters = u.many(lambda: BrokerId(u.i32()))
    brokers = {broker.broker: broker for broker in u.many(lambda: _take_broker(u, version))}
    topics = {topic.name: topic for topic in u.many(lambda: _take_topic(u, version))}
    routing = Routing(
        offsets_partitions=u.i32(),
        epoch=u.i32(),
        overrides=u.many(lambda: (u.text(), u.i32())),
    )
    feature_level = u.i32()
    next_group = GroupNo(u.u32())
    next_producer_id = u.i64()
    unregistered = _take_unregistered(u) if version >= MEMBERS_VERSION else {}
    balancer_paused = version >= MEMBERS_VERSION and u.flag()
    former_voters = u.many(lambda: BrokerId(u.i32())) if version >= MEMBERS_VERSION else ()
    broker_configs = _take_broker_configs(u) if version >= MEMBERS_VERSION else {}
    factor, voters_wanted = _take_replication(u, topics) if version >= MEMBERS_VERSION else (0, 0)
    scram_secret, scram_users = _take_users(u) if version >= MEMBERS_VERSION else (b"", {})
    acls = take_ordered_acls(u) if version >= MEMBERS_VERSION else frozenset[Acl]()
    quotas = take_quotas(u) if version >= MEMBERS_VERSION else MappingProxyType({})
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
        unregistered=MappingProxyType(unregistered),
        balancer_paused=balancer_paused,
        former_voters=former_voters,
        broker_configs=MappingProxyType(broker_configs),
        replication_factor=factor,
        controller_voters_wanted=voters_wanted,
        scram_users=MappingProxyType(scram_users),
        scram_secret=scram_secret,
        acls=acls,
        quotas=quotas,
    )
    return cluster, deleted


def _take_broker(u: Unpacker, version: int) -> Broker:
    broker = Broker(
        broker=BrokerId(u.i32()),
        replica_uuid=u.blob(),
        incarnation=u.i64(),
        endpoints=u.many(u.endpoint),
        admin=u.text(),
        draining=u.flag(),
        feature_max=u.i32(),
    )
    if version < MEMBERS_VERSION:
        return broker
    binding, gone = u.i32(), u.many(u.blob)
    if binding < 0 or len(gone) != binding or any(len(uuid) != UUID_BYTES for uuid in gone):
        raise Corruption(f"controller bytes: {len(gone)} folders of broker {broker.broker} gone at binding {binding}")
    return replace(broker, binding=binding, gone=gone, rack=u.text(), departing=u.flag())


def _take_unregistered(u: Unpacker) -> dict[BrokerId, tuple[bytes, ...]]:
    found = dict(u.many(lambda: (BrokerId(u.i32()), u.many(u.blob))))
    for broker, folders in found.items():
        if broker < 0 or any(len(uuid) != UUID_BYTES for uuid in folders):
            raise Corruption(f"controller bytes: broker {broker} was unregistered with folders that are none")
    return found


def _take_broker_configs(u: Unpacker) -> dict[BrokerId, tuple[tuple[str, str], ...]]:
    found = dict(u.many(lambda: (BrokerId(u.i32()), u.configs())))
    for broker, configs in found.items():
        if broker < EVERY_BROKER or not configs or list(configs) != sorted(configs):
            raise Corruption(f"controller bytes: broker {broker} has settings {configs}")
    return found


def _take_users(u: Unpacker) -> tuple[bytes, dict[str, tuple[ScramCredential, ...]]]:
    secret = u.blob()
    rows = u.many(lambda: (u.text(), u.many(lambda: _take_credential(u))))
    names = [user for user, _ in rows]
    if names != sorted(set(names)) or (bool(rows) > bool(secret)) or len(secret) not in (0, SCRAM_SECRET_BYTES):
        raise Corruption(f"controller bytes: {len(names)} users that are out of order, or twice, or without a secret")
    for user, credentials in rows:
        numbers = [credential.mechanism.value for credential in credentials]
        if user_name_error(user) is not None or not numbers or numbers != sorted(set(numbers)):
            raise Corruption(f"controller bytes: a user with credentials of mechanisms {numbers}")
    return secret, dict(rows)


def _take_credential(u: Unpacker) -> ScramCredential:
    number = u.u8()
    try:
        mechanism = ScramMechanism(number)
    except ValueError as error:
        raise Corruption(f"controller bytes: {number} is no SCRAM mechanism") from error
    credential = ScramCredential(
        mechanism=mechanism,
        iterations=u.i32(),
        salt=u.blob(),
        stored_key=u.blob(),
        server_key=u.blob(),
        since=u.i64(),
    )
    if credential_error(credential) is not None:
        raise Corruption(f"controller bytes: {credential_error(credential)}")
    return credential


def _take_topic(u: Unpacker, version: int) -> Topic:
    name, topic_id, internal, configs = u.text(), u.blob(), u.flag(), u.configs()
    partitions = u.many(lambda: _take_partition(u, version))
    return Topic(name=name, topic_id=topic_id, partitions=partitions, configs=configs, internal=internal)


def _take_partition(u: Unpacker, version: int) -> Partition:
    group, members = GroupNo(u.u32()), _take_members(u, version)
    placed = version >= MEMBERS_VERSION and u.flag()
    if version < MEMBERS_VERSION or not u.flag():
        return Partition(group=group, members=members, placed=placed)
    move = Move(*(u.many(lambda: BrokerId(u.i32())) for _ in Move._fields))
    if not move.target or min(move.target + move.origin + move.leaving) < 0:
        raise Corruption(f"controller bytes: Raft group {group} is moved to {move.target}")
    return Partition(group=group, members=members, move=move, placed=placed)


def _take_members(u: Unpacker, version: int) -> tuple[MemberNo, ...]:
    members = u.many(u.i64 if version >= MEMBERS_VERSION else u.i32)
    for member in members:
        if member < 0 or broker_of(member) > BROKER_MAX:
            raise Corruption(f"controller bytes: {member} is no member of a Raft group")
    return tuple(map(MemberNo, members))
