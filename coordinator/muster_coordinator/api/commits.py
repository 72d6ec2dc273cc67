"""OffsetCommit, OffsetDelete: topics are checked here, groups and offsets by the shard (protocol notes 4.1).

A commit carries the topic's id from the image (decision 27), so that it expires when that topic is deleted, and not
when another of the same name is. With topics.mode none every name is accepted and has no id. Partitions that are
refused here never reach the shard; the answer merges both kinds in the order of the request. Before a topic is called
unknown, the controller's leader is asked whether this replica's image is behind; without its answer the code is
COORDINATOR_NOT_AVAILABLE, on which clients ask again. Beside an upstream Kafka a topic that its last list lacks is
asked for there (`upstream.topic_counts`); what nobody can tell is taken, as everything is with topics.mode none.
"""

from collections.abc import Sequence

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.cluster_view import offsets_partition
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import EMPTY_ID, ClusterImage
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import (
    GroupAnswer,
    OffsetCommit,
    OffsetCommitAnswer,
    OffsetDelete,
    OffsetDeleteAnswer,
    PartitionCommit,
    TopicCommit,
)
from muster_coordinator.topics.stores import Capability
from muster_coordinator.upstream.topic_counts import NOBODY_KNOWS, Counts
from muster_coordinator.upstream.view import UpstreamView
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_COMMIT_IDS_SINCE = 10
_UNKNOWN = frozenset((Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID))

Errors = dict[tuple[str | bytes, int], int]


class Commits:
    """Handlers of OffsetCommit and OffsetDelete."""

    def __init__(self, services: Services) -> None:
        self._services = services

    # -- OffsetCommit

    def commit(self, context: RequestContext, version: int, request: OffsetCommit, reply: Exchange) -> None:
        """OffsetCommit v2-10."""
        services = self._services
        if not services.may_group(context, Operation.READ, request.group):
            reply(_commit_refused(request, version, Code.GROUP_AUTHORIZATION_FAILED))
            return
        image = services.surface.image()
        if image is None:
            reply(_commit_refused(request, version, Code.COORDINATOR_NOT_AVAILABLE))
            return
        if services.upstream is not None:
            self._commit_beside(services.upstream, context, version, request, reply)
            return
        topics, errors = self._known(context, version, request, image)
        if errors and not _UNKNOWN.isdisjoint(errors.values()):
            # The topic may be unknown only here, when another replica answered its creation. Java's consumer does not
            # retry error 3.
            services.surface.when_image_current(lambda current: self._again(current, context, version, request, reply))
        else:
            self._commit(context, version, request, image, topics, errors, reply)

    def _commit_beside(
        self, upstream: UpstreamView, context: RequestContext, version: int, request: OffsetCommit, reply: Exchange
    ) -> None:
        """Of topics that the upstream has."""
        wanted: dict[str, int] = {}
        for topic in request.topics:
            if self._services.may_topic(context, Operation.READ, topic.topic):
                highest = max((p.partition for p in topic.partitions), default=0)
                wanted[topic.topic] = max(highest, wanted.get(topic.topic, 0))

        def told(counts: Counts) -> None:
            image = self._services.surface.image()
            if image is None:
                reply(_commit_refused(request, version, Code.COORDINATOR_NOT_AVAILABLE))
                return
            topics, errors = self._known(context, version, request, image, counts)
            self._commit(context, version, request, image, topics, errors, reply)

        doubtful = upstream.topics.doubtful(wanted)
        if doubtful:
            upstream.topics.ask(doubtful, told)
        else:
            told({})

    def _again(
        self, current: bool, context: RequestContext, version: int, request: OffsetCommit, reply: Exchange
    ) -> None:
        """`current`: the image knows every topic that existed when the request came. Otherwise no topic is called
        unknown."""
        image = self._services.surface.image()
        if image is None:
            reply(_commit_refused(request, version, Code.COORDINATOR_NOT_AVAILABLE))
            return
        topics, errors = self._known(context, version, request, image)
        if not current:
            late = Code.COORDINATOR_NOT_AVAILABLE
            errors = {part: late if code in _UNKNOWN else code for part, code in errors.items()}
        self._commit(context, version, request, image, topics, errors, reply)

    def _commit(
        self,
        context: RequestContext,
        version: int,
        request: OffsetCommit,
        image: ClusterImage,
        topics: list[TopicCommit],
        errors: Errors,
        reply: Exchange,
    ) -> None:
        """Send the known topics to the shard; `topics` and `errors` are from `_known`."""
        if not topics:
            reply(_in_request_order(request, version, errors))
            return

        def answered(answer: GroupAnswer) -> None:
            assert isinstance(answer, OffsetCommitAnswer)
            if not errors and version < _COMMIT_IDS_SINCE:
                reply(answer.topics)
                return
            ids = {t.topic: t.topic_id for t in topics}
            for topic, partitions in answer.topics:
                key = ids[topic] if version >= _COMMIT_IDS_SINCE else topic
                errors.update({(key, partition): error for partition, error in partitions})
            reply(_in_request_order(request, version, errors))

        accepted = OffsetCommit(
            group=request.group,
            generation=request.generation,
            member=request.member,
            instance=request.instance,
            topics=tuple(topics),
            retention_ms=request.retention_ms,
            commit_timestamp_ms=request.commit_timestamp_ms,
            unknown_group_is_69=request.unknown_group_is_69,
        )
        self._services.surface.group_request(offsets_partition(image, request.group), accepted, context, answered)

    def _known(
        self,
        context: RequestContext,
        version: int,
        request: OffsetCommit,
        image: ClusterImage,
        counts: Counts = NOBODY_KNOWS,
    ) -> tuple[list[TopicCommit], Errors]:
        """(topics for the shard, with their ids; the errors of all others). `counts`: partitions at the upstream."""
        kept: list[TopicCommit] = []
        errors: Errors = {}
        by_id = version >= _COMMIT_IDS_SINCE
        for topic in request.topics:
            key = topic.topic_id if by_id else topic.topic
            name = image.names_by_id.get(topic.topic_id, "") if by_id else topic.topic
            if by_id and not name:
                code = Code.UNKNOWN_TOPIC_ID
            elif not self._services.may_topic(context, Operation.READ, name):
                code = Code.TOPIC_AUTHORIZATION_FAILED
            else:
                known, unknown = split_known(self._services, name, topic, image, counts)
                if known.partitions:
                    kept.append(known)
                errors.update({(key, p.partition): Code.UNKNOWN_TOPIC_OR_PARTITION for p in unknown})
                continue
            errors.update({(key, p.partition): code for p in topic.partitions})
        return kept, errors

    # -- OffsetDelete

    def delete(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """OffsetDelete v0."""
        self._delete(context, request, reply, None)

    def _delete(self, context: RequestContext, request: Value, reply: Exchange, current: bool | None) -> None:
        """`current`: whether the image is known to be current; None: not asked yet."""
        services = self._services
        if not services.may_group(context, Operation.DELETE, request.group_id):
            reply({"error_code": Code.GROUP_AUTHORIZATION_FAILED, "topics": ()})
            return
        image = services.surface.image()
        if image is None:
            reply({"error_code": Code.COORDINATOR_NOT_AVAILABLE, "topics": ()})
            return
        errors: Errors = {}
        wanted: list[tuple[str, tuple[int, ...]]] = []
        for topic in request.topics:
            partitions = tuple(p.partition_index for p in topic.partitions)
            if not services.may_topic(context, Operation.READ, topic.name):
                errors.update({(topic.name, p): Code.TOPIC_AUTHORIZATION_FAILED for p in partitions})
                continue
            known = self._known_partitions(topic.name, partitions, image)
            errors.update({(topic.name, p): Code.UNKNOWN_TOPIC_OR_PARTITION for p in partitions if p not in known})
            if known:
                wanted.append((topic.name, tuple(p for p in partitions if p in known)))

        if not current and Code.UNKNOWN_TOPIC_OR_PARTITION in errors.values():
            if current is None:
                services.surface.when_image_current(lambda now: self._delete(context, request, reply, now))
            else:
                reply({"error_code": Code.COORDINATOR_NOT_AVAILABLE, "topics": ()})
            return

        def answered(answer: GroupAnswer) -> None:
            assert isinstance(answer, OffsetDeleteAnswer)
            if answer.error:
                reply({"error_code": answer.error, "topics": ()})
                return
            for name, partitions in answer.topics:
                errors.update({(name, partition): error for partition, error in partitions})
            reply({"error_code": 0, "topics": _deleted(request, errors)})

        # The shard is asked even when no partition is left, because an error of the group takes precedence.
        services.surface.group_request(
            offsets_partition(image, request.group_id),
            OffsetDelete(request.group_id, tuple(wanted)),
            context,
            answered,
        )

    def _known_partitions(self, name: str, partitions: tuple[int, ...], image: ClusterImage) -> frozenset[int]:
        described = image.topics.get(name)
        if described is None:
            return frozenset(() if self._services.store.can(Capability.TOPICS) else partitions)
        return frozenset(p for p in partitions if 0 <= p < len(described.partitions))


def split_known(
    services: Services, name: str, topic: TopicCommit, image: ClusterImage, counts: Counts = NOBODY_KNOWS
) -> tuple[TopicCommit, Sequence[PartitionCommit]]:
    """(the partitions that exist, with the topic's id; those that do not). `counts`: partitions at the upstream."""
    described = image.topics.get(name)
    if described is None:
        if not services.store.can(Capability.TOPICS):
            there = counts.get(name)
            if there is None:
                return TopicCommit(name, EMPTY_ID, topic.partitions), ()
            known = tuple(p for p in topic.partitions if 0 <= p.partition < there)
            return TopicCommit(name, EMPTY_ID, known), [p for p in topic.partitions if not 0 <= p.partition < there]
        return TopicCommit(name, EMPTY_ID, ()), topic.partitions
    count = len(described.partitions)
    unknown = [p for p in topic.partitions if not 0 <= p.partition < count]
    known = topic.partitions
    if unknown:
        known = tuple(p for p in topic.partitions if 0 <= p.partition < count)
    return TopicCommit(name, described.topic_id, known), unknown


def _commit_refused(request: OffsetCommit, version: int, code: Code) -> Value:
    by_id = version >= _COMMIT_IDS_SINCE
    return [
        (t.topic_id if by_id else t.topic, [(p.partition, int(code)) for p in t.partitions]) for t in request.topics
    ]


def _in_request_order(request: OffsetCommit, version: int, errors: Errors) -> Value:
    by_id = version >= _COMMIT_IDS_SINCE
    answer = []
    for topic in request.topics:
        key = topic.topic_id if by_id else topic.topic
        answer.append((key, [(p.partition, int(errors[key, p.partition])) for p in topic.partitions]))
    return answer


def _deleted(request: Value, errors: Errors) -> Value:
    return [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": p.partition_index, "error_code": errors[topic.name, p.partition_index]}
                for p in topic.partitions
            ],
        }
        for topic in request.topics
    ]
