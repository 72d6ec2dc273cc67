"""DeleteTopics: by name, since version 6 also by id. Internal topics are refused with error 44.

Who may not see a topic is not told whether it exists. What it does not do: remove anything; each replica does when the
command is applied.
"""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.api.authorize import CLUSTER, Operation
from muster_coordinator.api.changes import NO_TIME, Outcome, changeable_topic, propose, refused, until_ms
from muster_coordinator.api.create_topics import count_mutations
from muster_coordinator.api.doubt import Doubt
from muster_coordinator.api.gather import gather_in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import DeleteTopic
from muster_coordinator.controller.image import EMPTY_ID, ClusterImage, Topic
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.throttling import Mutations

_BY_ID_SINCE, _DISABLED_SINCE, _THROTTLED_SINCE = 6, 3, 5


class Doomed(NamedTuple):
    """A topic to delete, as the request names it: by name, by id, by both or by neither."""

    name: str | None
    topic_id: bytes


class Deleted(NamedTuple):
    """The answer for one topic."""

    outcome: Outcome
    name: str | None
    topic_id: bytes


class _Asked(NamedTuple):
    """One request, with what each of its topics needs."""

    context: RequestContext
    version: int
    request: Value
    until_ms: int
    """When its time is over, on the monotonic clock."""
    doubt: Doubt
    mutations: Mutations


class DeleteTopics:
    """Handler of DeleteTopics v1-6."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """DeleteTopics v1-6: by name, since v6 also by id."""
        if version >= _BY_ID_SINCE:
            doomed = [Doomed(topic.name, topic.topic_id) for topic in request.topics]
        else:
            doomed = [Doomed(name, EMPTY_ID) for name in request.topic_names]
        times = Counter(doomed)
        once = list(times)
        surface = self._services.surface
        doubt = Doubt(surface, Code.NOT_CONTROLLER)
        mutations = reply.mutations(strict=version >= _THROTTLED_SINCE)
        asked = _Asked(context, version, request, until_ms(surface, request), doubt, mutations)

        def begin(index: int, arrived: Callable[[Value], None]) -> None:
            one = once[index]
            self._one(asked, times[one], one, lambda deleted: arrived(_response(deleted)))

        gather_in_turns(surface.loop, len(once), begin, lambda responses: reply({"responses": responses}))

    def _one(self, asked: _Asked, times: int, one: Doomed, done: Callable[[Deleted], None]) -> None:
        def judge() -> Topic:
            if times > 1:
                raise ApiError(Code.INVALID_REQUEST, "the topic is named twice")
            topic = self._judge(asked.context, asked.version, one, self._services.surface.image())
            count_mutations(asked.mutations, len(topic.partitions))
            return topic

        def refuse(error: ApiError) -> None:
            shown = one.name
            if shown is None:
                shown = self._shown_name(asked.context, error.code, one.topic_id)
            done(Deleted(refused(error), shown, one.topic_id))

        asked.doubt.judge(judge, lambda topic: self._delete(asked, one, topic, done), refuse)

    def _delete(self, asked: _Asked, one: Doomed, topic: Topic, done: Callable[[Deleted], None]) -> None:
        """The command always names the topic by its id, because another one may have the name when it is applied."""

        def decided(outcome: Outcome) -> None:
            done(Deleted(outcome if one.name is None else outcome.by_name(), topic.name, topic.topic_id))

        if asked.request.timeout_ms <= 0:
            decided(NO_TIME)
        else:
            propose(self._services.surface, DeleteTopic(topic_id=topic.topic_id), asked.until_ms, decided)

    def _judge(self, context: RequestContext, version: int, one: Doomed, image: ClusterImage | None) -> Topic:
        if (one.name is None) == (one.topic_id == EMPTY_ID):
            raise ApiError(Code.INVALID_REQUEST, "a topic must be given by either its name or its id")
        if not self._services.settings.delete_topic_enable:
            code = Code.TOPIC_DELETION_DISABLED if version >= _DISABLED_SINCE else Code.INVALID_REQUEST
            raise ApiError(code, "delete.topic.enable is false")
        name = one.name
        if name is None:
            name = None if image is None else image.names_by_id.get(one.topic_id)
            if name is None:
                raise ApiError(Code.UNKNOWN_TOPIC_ID)
        services = self._services
        if services.open or services.would_allow(context, Operation.DELETE, CLUSTER):
            return changeable_topic(name, image)[0]
        # Who may see that there is no such topic is told so, even without the right to delete it.
        unknown = one.name is not None and services.may_topic(context, Operation.DESCRIBE, name)
        if not (unknown and image is not None and name not in image.topics) and not services.may_topic(
            context, Operation.DELETE, name
        ):
            raise ApiError(Code.TOPIC_AUTHORIZATION_FAILED)
        if one.name is not None and not unknown:
            raise ApiError(Code.TOPIC_AUTHORIZATION_FAILED)
        return changeable_topic(name, image)[0]

    def _shown_name(self, context: RequestContext, code: Code, topic_id: bytes) -> str | None:
        """The name of a topic that was named by its id and may not be deleted, for who may see it."""
        image = self._services.surface.image()
        name = None if image is None else image.names_by_id.get(topic_id)
        if code is not Code.TOPIC_AUTHORIZATION_FAILED or name is None:
            return None
        return name if self._services.may_topic(context, Operation.DESCRIBE, name) else None


def _response(deleted: Deleted) -> Value:
    return {
        "name": deleted.name,
        "topic_id": deleted.topic_id,
        "error_code": deleted.outcome.code,
        "error_message": deleted.outcome.message,
    }
