"""OffsetFetch: topics are checked here, groups and offsets by the shard (protocol notes 4.3).

An offset belongs to the topic that it was committed for. After that topic is deleted and created again under the same
name, the offset must not be answered for the new one, even before its tombstone is written, or if it never is: the
shard compares the topic id of the commit with the ids in this replica's image. An id that the image does not know may
be newer than the image. So before an id is called unknown, or an offset is left out because of its id, or a topic
because it has none, the controller's leader is asked whether this replica is behind; without an answer the client is
told to ask again.

What it does not do: ask that for every fetch. An image that still has the earlier topic accepts that topic's offset; it
is behind the answer to CreateTopics only by as much as this replica is behind in applying the controller's log.
"""

from collections.abc import Callable, Sequence
from functools import partial

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.cluster_view import offsets_partition
from muster_coordinator.api.gather import gather_few
from muster_coordinator.api.limits import OFFSET_FETCH_IMAGES_MAX
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import FetchedOffset, GroupAnswer, OffsetFetch, OffsetFetchAnswer, TopicIds
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.hot.offset_fetch import Asked, GroupOffsets, Topic

_IDS_SINCE, _GROUP_ERROR_SINCE = 10, 2
Done = Callable[[GroupOffsets], None]
Found = list[tuple[Topic, Sequence[FetchedOffset]]]


class OffsetFetches:
    """Handler of OffsetFetch."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, version: int, request: tuple[Asked, ...], reply: Exchange) -> None:
        """OffsetFetch v1-10: several groups since v8, each answered by itself, and once."""
        groups = _once(request)
        if len(groups) == 1:
            self._group(context, version, groups[0], lambda offsets: reply((offsets,)))
            return

        def begin(index: int, arrived: Done) -> None:
            self._group(context, version, groups[index], arrived)

        gather_few(self._services.surface.loop, len(groups), begin, reply)

    def _group(self, context: RequestContext, version: int, asked: Asked, done: Done) -> None:
        if self._services.may_group(context, Operation.DESCRIBE, asked.group):
            self._ask(context, version, asked, 0, done)
        else:
            done(_refused(asked, version, Code.GROUP_AUTHORIZATION_FAILED))

    def _ask(
        self, context: RequestContext, version: int, asked: Asked, tried: int, done: Done, *, current: bool = False
    ) -> None:
        """Evaluate with the present image. `current`: that image is no older than the request."""
        surface = self._services.surface
        image = surface.image()
        if image is None or tried == OFFSET_FETCH_IMAGES_MAX:
            done(_refused(asked, version, Code.COORDINATOR_NOT_AVAILABLE))
            return
        again = partial(self._ask, context, version, asked, tried + 1, done, current=True)
        names, refused, wanted = self._known(context, version, asked, image)
        if not current and any(offset.error == Code.UNKNOWN_TOPIC_ID for _, offsets in refused for offset in offsets):
            late = _refused(asked, version, Code.COORDINATOR_NOT_AVAILABLE)
            surface.when_image_current(lambda is_current: again() if is_current else done(late))
            return

        def answered(answer: GroupAnswer) -> None:
            assert isinstance(answer, OffsetFetchAnswer)
            if answer.error:
                done(_refused(asked, version, answer.error))
                return

            def made() -> GroupOffsets:
                if names is None:
                    return GroupOffsets(asked.group, 0, answer.topics)
                found = self._named(context, version, asked, answer, names, image)
                return GroupOffsets(asked.group, 0, [*found, *refused])

            if answer.unknown_id or (asked.topics is None and self._hides(context, version, answer, image)):
                surface.when_image_current(
                    lambda is_current: self._judge(is_current, image, made, again, asked, version, done)
                )
            else:
                done(made())

        ids = TopicIds(image.names_by_id, image.deleted_topic_ids)
        request = OffsetFetch(asked.group, wanted, asked.require_stable, ids)
        surface.group_request(offsets_partition(image, asked.group), request, context, answered)

    def _judge(
        self,
        current: bool,
        judged_by: ClusterImage,
        made: Callable[[], GroupOffsets],
        again: Callable[[], None],
        asked: Asked,
        version: int,
        done: Done,
    ) -> None:
        """Offsets were left out. Answer so if an image newer than the shard's answer has the same topics: their topics
        are deleted then. Otherwise evaluate again."""
        image = self._services.surface.image()
        if not current or image is None:
            done(_refused(asked, version, Code.COORDINATOR_NOT_AVAILABLE))
        elif image.names_by_id is judged_by.names_by_id or image.names_by_id == judged_by.names_by_id:
            done(made())
        else:
            again()

    def _known(
        self, context: RequestContext, version: int, asked: Asked, image: ClusterImage
    ) -> tuple[dict[str, Topic] | None, Found, tuple[tuple[str, tuple[int, ...]], ...] | None]:
        """(name → topic as in the request, or None where both are the same and no topic is hidden; refused topics;
        topics for the shard)."""
        services = self._services
        if services.open and version < _IDS_SINCE:
            return None, [], asked.topics  # type: ignore[return-value]  # names, before v10
        names: dict[str, Topic] = {}
        refused: Found = []
        wanted: list[tuple[str, tuple[int, ...]]] = []
        for topic, partitions in asked.topics or ():
            name = image.names_by_id.get(topic) if isinstance(topic, bytes) else topic
            if name is None:
                refused.append((topic, _offsets(partitions, Code.UNKNOWN_TOPIC_ID)))
            elif not services.may_topic(context, Operation.DESCRIBE, name):
                refused.append((topic, _offsets(partitions, Code.TOPIC_AUTHORIZATION_FAILED)))
            else:
                names[name] = topic
                wanted.append((name, partitions))
        return names, refused, None if asked.topics is None else tuple(wanted)

    def _hides(self, context: RequestContext, version: int, answer: OffsetFetchAnswer, image: ClusterImage) -> bool:
        """Whether the answer would leave out offsets of a topic because the image has no id for it."""
        may = self._services.may_topic
        return version >= _IDS_SINCE and any(
            name not in image.topics and may(context, Operation.DESCRIBE, name) for name, _ in answer.topics
        )

    def _named(
        self,
        context: RequestContext,
        version: int,
        asked: Asked,
        answer: OffsetFetchAnswer,
        names: dict[str, Topic],
        image: ClusterImage,
    ) -> Found:
        """The shard's topics as the request names them. If it asks for all: only topics that the caller may DESCRIBE,
        and in versions with ids only topics that exist."""
        if asked.topics is not None:
            return [(names[name], offsets) for name, offsets in answer.topics]
        found: Found = []
        for name, offsets in answer.topics:
            if not self._services.may_topic(context, Operation.DESCRIBE, name):
                continue
            topic = image.topics.get(name)
            if version < _IDS_SINCE:
                found.append((name, offsets))
            elif topic is not None:
                found.append((topic.topic_id, offsets))
        return found


def _once(request: Sequence[Asked]) -> Sequence[Asked]:
    """Each group, topic and partition once: the 4 bytes that name a partition may have 4 KiB of metadata."""
    if len(request) == 1 or len({asked.group for asked in request}) == len(request):
        return [asked if _is_plain(asked) else asked._replace(topics=_merged([asked])) for asked in request]
    groups: dict[str, list[Asked]] = {}
    for asked in request:
        groups.setdefault(asked.group, []).append(asked)
    return [same[0]._replace(topics=_merged(same)) for same in groups.values()]


def _is_plain(asked: Asked) -> bool:
    """Whether nothing in it is named twice, as in every request of an ordinary client."""
    topics = asked.topics or ()
    named_once = len(topics) < 2 or len({topic for topic, _ in topics}) == len(topics)
    return named_once and all(len(numbers) < 2 or len(set(numbers)) == len(numbers) for _, numbers in topics)


def _merged(same: Sequence[Asked]) -> tuple[tuple[Topic, tuple[int, ...]], ...] | None:
    """All that is asked of one group; None is everything."""
    merged: dict[Topic, dict[int, None]] = {}
    for asked in same:
        if asked.topics is None:
            return None
        for topic, numbers in asked.topics:
            merged.setdefault(topic, {}).update(dict.fromkeys(numbers))
    return tuple((topic, tuple(numbers)) for topic, numbers in merged.items())


def _offsets(partitions: tuple[int, ...], code: int) -> tuple[FetchedOffset, ...]:
    return tuple(FetchedOffset(p, -1, -1, "", code) for p in partitions)


def _refused(asked: Asked, version: int, code: int) -> GroupOffsets:
    """v1 has no field for an error of the group, so it is set on every partition (KAFKA-19246)."""
    if version >= _GROUP_ERROR_SINCE:
        return GroupOffsets(asked.group, code, ())
    return GroupOffsets(asked.group, code, [(t, _offsets(partitions, code)) for t, partitions in asked.topics or ()])
