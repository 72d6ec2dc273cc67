"""TxnOffsetCommit: the offsets that a producer commits with its output (KIP-98, KIP-447, KIP-890).

The rights come first (transactional id, group, topics), then the topics as for OffsetCommit (`commits`), then the
transaction's coordinator, asked by the shard's host before the first write of a transaction here, then the group. There
is no error of the whole request: what refuses it is said of every partition. A client that may not know a code gets the
one that stands for it: 48 before v4 where 120 is meant, 15 before v2 where 14 is, and never a code of the transaction's
coordinator that would send it looking for the group's.
"""

from collections.abc import Callable
from functools import partial

from muster_coordinator.api.authorize import Operation, Resource, ResourceType
from muster_coordinator.api.cluster_view import offsets_partition
from muster_coordinator.api.commits import split_known
from muster_coordinator.api.services import Services
from muster_coordinator.api.transaction_verifier import TransactionVerifier
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import EMPTY_ID, OFFSETS_TOPIC, ClusterImage
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import (
    GroupAnswer,
    OffsetCommitAnswer,
    PartitionCommit,
    TopicCommit,
    TxnOffsetCommit,
)
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_MEMBERS_SINCE, _ABORTABLE_SINCE, _ADDS_SINCE, _LOADING_SINCE = 3, 4, 5, 2
_ASK_AGAIN = frozenset({
    Code.NETWORK_EXCEPTION, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR,
    Code.CONCURRENT_TRANSACTIONS,
})  # fmt: skip
"""Codes of the transaction's coordinator that pass: every client sends the commit again on 14, and looks up nothing."""
Errors = dict[tuple[str, int], int]


class TxnCommits:
    """Handler of TxnOffsetCommit v0-5."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """Rights, then the topics that this replica knows; see the module."""
        services = self._services
        if not services.authorize(
            context, Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        ):
            reply(_refused(request, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        elif not services.may_group(context, Operation.READ, request.group_id):
            reply(_refused(request, Code.GROUP_AUTHORIZATION_FAILED))
        elif services.upstream is not None:
            reply(_refused(request, Code.UNSUPPORTED_FOR_MESSAGE_FORMAT))  # two logs cannot decide together (ADR 96)
        elif services.verifier is None:
            reply(_refused(request, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))  # as FindCoordinator says it
        else:
            self._commit(context, version, request, reply, services.verifier, None)

    def _commit(
        self,
        context: RequestContext,
        version: int,
        request: Value,
        reply: Exchange,
        verifier: TransactionVerifier,
        current: bool | None,
    ) -> None:
        """`current`: whether the image is known to be current; None: not asked yet."""
        services = self._services
        image = services.surface.image()
        if image is None:
            reply(_refused(request, Code.COORDINATOR_NOT_AVAILABLE))
            return
        topics, errors = self._known(context, request, image)
        if not current and Code.UNKNOWN_TOPIC_OR_PARTITION in errors.values():
            if current is None:
                services.surface.when_image_current(partial(self._commit, context, version, request, reply, verifier))
                return
            late = int(Code.COORDINATOR_NOT_AVAILABLE)
            errors = {key: late if code == Code.UNKNOWN_TOPIC_OR_PARTITION else code for key, code in errors.items()}
        if not topics:
            reply(_answer(request, errors))
            return

        def answered(answer: GroupAnswer) -> None:
            assert isinstance(answer, OffsetCommitAnswer)
            for topic, partitions in answer.topics:
                errors.update({(topic, partition): _told(code, version) for partition, code in partitions})
            reply(_answer(request, errors))

        commit = _commit_of(version, request, tuple(topics))
        partition = offsets_partition(image, request.group_id)

        def verify(agreed: Callable[[Code], None]) -> None:
            verifier.verify(
                request.transactional_id,
                commit.producer_id,
                commit.producer_epoch,
                OFFSETS_TOPIC,
                partition,
                add=version >= _ADDS_SINCE,
                deadline_ms=context.deadline_ms,
                done=lambda code: agreed(Code.COORDINATOR_LOAD_IN_PROGRESS if code in _ASK_AGAIN else code),
            )

        services.surface.transactional_commit(partition, commit, context, verify, answered)

    def _known(self, context: RequestContext, request: Value, image: ClusterImage) -> tuple[list[TopicCommit], Errors]:
        """(topics for the shard, with their ids; the errors of all others)."""
        kept: list[TopicCommit] = []
        errors: Errors = {}
        for topic in request.topics:
            if not self._services.may_topic(context, Operation.READ, topic.name):
                denied = int(Code.TOPIC_AUTHORIZATION_FAILED)
                errors.update({(topic.name, p.partition_index): denied for p in topic.partitions})
                continue
            asked = TopicCommit(topic.name, EMPTY_ID, tuple(_partition(p) for p in topic.partitions))
            known, unknown = split_known(self._services, topic.name, asked, image)
            if known.partitions:
                kept.append(known)
            errors.update({(topic.name, p.partition): int(Code.UNKNOWN_TOPIC_OR_PARTITION) for p in unknown})
        return kept, errors


def _commit_of(version: int, request: Value, topics: tuple[TopicCommit, ...]) -> TxnOffsetCommit:
    members = version >= _MEMBERS_SINCE
    return TxnOffsetCommit(
        group=request.group_id,
        generation=request.generation_id if members else -1,
        member=request.member_id if members else "",
        instance=request.group_instance_id if members else None,
        topics=topics,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
    )


def _partition(asked: Value) -> PartitionCommit:
    """v0-1 have no leader epoch; metadata null is ""."""
    return PartitionCommit(
        asked.partition_index, asked.committed_offset, asked.committed_leader_epoch, asked.committed_metadata or ""
    )


def _told(code: int, version: int) -> int:
    """The code as clients of this version understand it."""
    if code in (Code.INVALID_TXN_STATE, Code.TRANSACTION_ABORTABLE):
        return int(Code.TRANSACTION_ABORTABLE if version >= _ABORTABLE_SINCE else Code.INVALID_TXN_STATE)
    if code == Code.PRODUCER_FENCED:
        return int(Code.INVALID_PRODUCER_EPOCH)
    if code == Code.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_SINCE:
        return int(Code.COORDINATOR_NOT_AVAILABLE)
    return code


def _refused(request: Value, code: Code) -> Value:
    return _answer(request, {(t.name, p.partition_index): int(code) for t in request.topics for p in t.partitions})


def _answer(request: Value, errors: Errors) -> Value:
    """In the order of the request."""
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": p.partition_index, "error_code": errors[topic.name, p.partition_index]}
                    for p in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }
