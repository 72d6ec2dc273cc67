"""JSON documents of the admin API, built from one replica's own view. Shapes: docs/admin-api.schema.json.

They are plain functions from values to dictionaries, so that the schema test needs no server.
"""

import base64
from collections.abc import Callable
from typing import Any

from muster_coordinator.admin.drain import Drain
from muster_coordinator.admin.view import AdminReplica, CertificateStatus
from muster_coordinator.controller.image import OFFSETS_TOPIC, Broker, ClusterImage, observers
from muster_coordinator.errors import MusterError
from muster_coordinator.groups.assignors.consumer_protocol import decode_assignment
from muster_coordinator.groups.requests import DescribedMember, DescribeGroupAnswer, OffsetFetchAnswer
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo
from muster_coordinator.redis_streams.lag import Records
from muster_coordinator.replica.maintenance.disk_space import DiskStatus
from muster_coordinator.replica.multiraft.status import CleanerStatus, GroupStatus

Json = dict[str, Any]


def status_document(replica: AdminReplica, drain: Drain, *, version: str, uptime_ms: int) -> Json:
    """`GET /v1/status`. Partitions are left out, so that it fits a screen."""
    image = replica.image()
    controller = replica.leadership(CONTROLLER_GROUP)
    reasons = replica.not_ready()
    broker = image.brokers.get(replica.broker) if image is not None else None
    folder = replica.own_folder()
    return {
        "version": version,
        "broker": replica.broker,
        "replica_uuid": folder.hex() if folder is not None else None,
        "cluster_id": image.cluster_id if image is not None else None,
        "incarnation": broker.incarnation if broker is not None else None,
        "uptime_ms": uptime_ms,
        "ready": not reasons,
        "not_ready": list(reasons),
        "draining": broker.draining if broker is not None else False,
        "drain": {"phase": str(drain.phase), "left": drain.left()},
        "leaderships": drain.left(),
        "disk": disk_document(replica.disk_status()),
        "cleaner": cleaner_document(replica.cleaner_status()),
        "transactions": transactions_document(replica),
        "controller": {"leader": controller.leader, "term": controller.term},
        "voters": list(image.voters) if image is not None else [],
        "observers": list(observers(image)) if image is not None else [],
        "brokers": [broker_document(replica, image.brokers[key]) for key in sorted(image.brokers)] if image else [],
        "offsets_partitions": image.routing.offsets_partitions if image is not None else None,
        "feature_level": image.feature_level if image is not None else None,
        "groups_to_change": replica.groups_to_change(),
        "copies_without_room": [
            {"raft_group": one.group, "partition": one.partition, "reason": one.reason}
            for one in replica.copies_without_room()
        ],
    }


def cleaner_document(cleaner: CleanerStatus) -> Json:
    """Log cleaning since the start; `cleaning` is null between two rounds."""
    return {
        "cleaning": cleaner.cleaning or None,
        "rounds": cleaner.rounds,
        "failures": cleaner.failures,
        "done_bytes": cleaner.done_bytes,
        "freed_bytes": cleaner.freed_bytes,
        "due": cleaner.due,
        "uncleanable": cleaner.uncleanable,
    }


def transactions_document(replica: AdminReplica) -> Json:
    """Transactions coordinated here, and what they keep from readers of committed data in partitions led here."""
    status = replica.transaction_status()
    ages_ms = [one.open_ms for one in replica.open_transactions()]
    return {
        "ids": status.ids,
        "ongoing": status.ongoing,
        "prepared": status.prepared,
        "markers_late": sum(1 for _ in replica.late_markers()),
        "partitions_held_back": len(ages_ms),
        "oldest_open_ms": max(ages_ms, default=None),
    }


def certificate_document(one: CertificateStatus) -> Json:
    """The certificate of one listener; `problem` says why what its files hold now is not used."""
    return {
        "listener": one.name,
        "subject": one.subject,
        "not_after_s": one.not_after_s,
        "left_days": one.left_s // 86_400,
        "problem": one.problem,
    }


def disk_document(disk: DiskStatus) -> Json:
    """Free space on the disk; `free_bytes` is null while it is not known."""
    return {
        "free_bytes": disk.free_bytes if disk.free_bytes >= 0 else None,
        "low_bytes": disk.low_bytes,
        "good_bytes": disk.good_bytes,
        "low": disk.low,
        "full": disk.full,
    }


def broker_document(replica: AdminReplica, broker: Broker) -> Json:
    """One broker, and whether this replica reaches it."""
    return {
        "broker": broker.broker,
        "alive": replica.alive(broker.broker),
        "draining": broker.draining,
        "departing": broker.departing,
        "incarnation": broker.incarnation,
        "replica_uuid": broker.replica_uuid.hex() if broker.bound else None,
        "binding": broker.binding,
        "rack": broker.rack or None,
        "admin": broker.admin,
        "endpoints": [{"listener": e.listener, "host": e.host, "port": e.port} for e in broker.endpoints],
    }


def names_of_groups(image: ClusterImage | None) -> dict[GroupNo, tuple[str, int]]:
    """Raft group -> (topic, partition) of all topics, made once per document."""
    if image is None:
        return {}
    return {
        partition.group: (topic.name, index)
        for topic in image.topics.values()
        for index, partition in enumerate(topic.partitions)
    }


def partition_document(
    group: GroupStatus, topic: str | None, partition: int | None, *, log_bytes: int | None = None
) -> Json:
    """A Raft group with a voter here; topic and partition are null for the controller group. `log_bytes`: of a
    partition's records here, null for groups without."""
    return {
        "group": group.group,
        "topic": topic,
        "partition": partition,
        "role": group.role,
        "term": group.term,
        "leader": group.leader,
        "commit": group.commit,
        "applied": group.applied,
        "last_index": group.last_index,
        "log_bytes": log_bytes,
        "voters": list(group.voters),
        "learners": list(group.learners()),
        "bindings": {str(voter): binding for voter, binding in group.bindings().items()},
        "match": {str(voter): index for voter, index in group.match.items()},
        "trouble": group.trouble,
        "suspended": group.suspended,
        "damaged": [{"file": one.file, "damage": one.damage, "repair": one.repair} for one in group.damaged],
    }


def group_document(
    description: DescribeGroupAnswer,
    offsets: OffsetFetchAnswer,
    behind: Callable[[str, int, int], Records | None],
    *,
    partition: int,
    coordinator: BrokerId,
) -> Json:
    """`GET /v1/groups/{id}`: the group and its committed offsets, both after a ReadIndex round. `behind`: the records
    behind an offset (topic, partition, offset) as they were counted last; None where offsets have no gaps."""
    return {
        "group": description.group,
        "coordinator": coordinator,
        "offsets_topic": OFFSETS_TOPIC,
        "offsets_partition": partition,
        "state": description.state,
        "generation": description.generation,
        "last_rebalance_ms": description.rebalanced_at_ms,
        "last_rebalance_reason": description.rebalance_reason,
        "protocol_type": description.protocol_type,
        "protocol": description.protocol,
        "members": [_member_document(member, description.protocol_type) for member in description.members],
        "offsets": [
            {
                "topic": topic,
                "partition": offset.partition,
                "offset": offset.offset,
                "leader_epoch": offset.leader_epoch,
                "metadata": offset.metadata,
                "behind": _behind_document(behind(topic, offset.partition, offset.offset)),
            }
            for topic, partitions in offsets.topics
            for offset in partitions
            if offset.offset >= 0
        ],
    }


def _behind_document(records: Records | None) -> Json | None:
    return None if records is None else {"records": records.number, "quality": str(records.quality)}


def _member_document(member: DescribedMember, protocol_type: str) -> Json:
    return {
        "member": member.member,
        "instance": member.instance,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "assignment": _assigned(member.assignment) if protocol_type == "consumer" else None,
        "assignment_base64": base64.b64encode(member.assignment).decode(),
    }


def _assigned(assignment: bytes) -> list[Json] | None:
    """The decoded consumer assignment; None when the bytes are none (members may send any bytes)."""
    if not assignment:
        return []
    try:
        decoded = decode_assignment(assignment)
    except MusterError:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, partition in decoded.partitions:
        by_topic.setdefault(topic, []).append(partition)
    return [{"topic": topic, "partitions": partitions} for topic, partitions in by_topic.items()]
