"""DeleteTopics and CreatePartitions. They refuse the offsets topic with error 44. CreatePartitions is answered when the
new partitions have leaders, or with 7 when the request's time is over, as CreateTopics is."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.assignments import Replicas, chosen_replicas, placed_replicas
from muster_coordinator.api.authorize import CLUSTER, Operation
from muster_coordinator.api.create_topics import count_mutations
from muster_coordinator.api.doubt import ABSENT, UNPROVEN, Doubt
from muster_coordinator.api.gather import gather_in_turns
from muster_coordinator.api.leader_wait import Grown, LeaderWait, standing_of_grown
from muster_coordinator.api.place_for_topics import PlaceForTopics
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import AddPartitions, Command, CommandResult, DeleteTopic
from muster_coordinator.controller.image import EMPTY_ID, ClusterImage, Topic
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.throttling import Mutations

_BY_ID_SINCE, _DISABLED_SINCE = 6, 3
_DELETES_THROTTLED_SINCE, _GROWTH_THROTTLED_SINCE = 5, 3
_DOUBTFUL = ABSENT | {Code.INVALID_REPLICATION_FACTOR, Code.INVALID_REPLICA_ASSIGNMENT}


class Outcome(NamedTuple):
    """The answer for one topic."""

    code: Code
    message: str | None = None
    name: str | None = None
    topic_id: bytes = EMPTY_ID
    grown: tuple[Grown, ...] = ()
    """Partitions that were added."""


class Doomed(NamedTuple):
    """A topic to delete, as the request names it: by name, by id, by both or by neither."""

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
    place: PlaceForTopics
    mutations: Mutations


class TopicsAdmin:
    """Handlers of DeleteTopics and CreatePartitions."""

    def __init__(self, services: Services) -> None:
        self._services = services

    # -- DeleteTopics

    def delete(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """DeleteTopics v1-6: by name, since v6 also by id."""
        if version >= _BY_ID_SINCE:
            doomed = [Doomed(topic.name, topic.topic_id) for topic in request.topics]
        else:
            doomed = [Doomed(name, EMPTY_ID) for name in request.topic_names]
        times = Counter(doomed)
        once = list(times)
        doubt = Doubt(self._services.surface, Code.NOT_CONTROLLER)

        mutations = reply.mutations(strict=version >= _DELETES_THROTTLED_SINCE)
        asked = _Asked(context, version, request, self._until_ms(request), doubt, PlaceForTopics(), mutations)

        def begin(index: int, arrived: Callable[[Value], None]) -> None:
            one = once[index]
            self._doom(asked, times[one], one, lambda outcome: arrived(_deleted(outcome)))

        loop = self._services.surface.loop
        gather_in_turns(loop, len(once), begin, lambda responses: reply({"responses": responses}))

    def _doom(self, asked: "_Asked", times: int, one: Doomed, done: Callable[[Outcome], None]) -> None:
        try:
            if times > 1:
                raise ApiError(Code.INVALID_REQUEST, "the topic is named twice")
            topic = self._judge_doomed(asked.context, asked.version, one, self._services.surface.image())
            count_mutations(asked.mutations, len(topic.partitions))
        except ApiError as error:
            if not asked.doubt.parks(error.code, partial(self._doom, asked, times, one, done)):
                error = asked.doubt.error(error)
                shown = one.name
                if shown is None:
                    shown = self._shown_name(asked.context, error.code, one.topic_id)
                done(Outcome(error.code, error.message, shown, one.topic_id))
            return
        outcome = Outcome(Code.NONE, None, topic.name, topic.topic_id)
        command, by_id = DeleteTopic(topic_id=topic.topic_id), one.name is None
        self._submit(command, asked, outcome, done, by_id=by_id)

    def _judge_doomed(self, context: RequestContext, version: int, one: Doomed, image: ClusterImage | None) -> Topic:
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
            return _ours_to_change(name, image)[0]
        # Who may see that there is no such topic is told so, even without the right to delete it.
        unknown = one.name is not None and services.may_topic(context, Operation.DESCRIBE, name)
        if not (unknown and image is not None and name not in image.topics) and not services.may_topic(
            context, Operation.DELETE, name
        ):
            raise ApiError(Code.TOPIC_AUTHORIZATION_FAILED)
        if one.name is not None and not unknown:
            raise ApiError(Code.TOPIC_AUTHORIZATION_FAILED)
        return _ours_to_change(name, image)[0]

    def _shown_name(self, context: RequestContext, code: Code, topic_id: bytes) -> str | None:
        """The name of a topic that was named by its id and may not be deleted, for who may see it."""
        image = self._services.surface.image()
        name = None if image is None else image.names_by_id.get(topic_id)
        if code is not Code.TOPIC_AUTHORIZATION_FAILED or name is None:
            return None
        return name if self._services.may_topic(context, Operation.DESCRIBE, name) else None

    def _existing(
        self, context: RequestContext, operation: Operation, name: str, image: ClusterImage | None
    ) -> tuple[Topic, ClusterImage]:
        """The topic, and the image that has it."""
        if not self._services.may_topic(context, operation, name):
            raise ApiError(Code.TOPIC_AUTHORIZATION_FAILED)
        return _ours_to_change(name, image)

    # -- CreatePartitions

    def create_partitions(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """CreatePartitions v0-3."""
        times = Counter(topic.name for topic in request.topics)
        once = list({topic.name: topic for topic in request.topics}.values())
        surface = self._services.surface
        until_ms = self._until_ms(request)

        def decided(outcomes: list[Outcome]) -> None:
            grown = [one for outcome in outcomes if outcome.code is Code.NONE for one in outcome.grown]
            standing = standing_of_grown(surface, context.listener)
            LeaderWait(surface, grown, standing, until_ms, lambda late: reply(_partitions_created(outcomes, late)))

        doubt = Doubt(surface, Code.NOT_CONTROLLER, _DOUBTFUL)
        mutations = reply.mutations(strict=version >= _GROWTH_THROTTLED_SINCE)
        asked = _Asked(context, version, request, until_ms, doubt, PlaceForTopics(), mutations)

        def begin(index: int, arrived: Callable[[Outcome], None]) -> None:
            one = once[index]
            self._grow_one(asked, times[one.name], one, arrived)

        gather_in_turns(surface.loop, len(once), begin, decided)

    def _grow_one(
        self, asked: "_Asked", times: int, one: Value, done: Callable[[Outcome], None], tries: int = 1
    ) -> None:
        """`tries`: how often the partitions are placed, this time included."""
        try:
            if times > 1:
                raise ApiError(Code.INVALID_REQUEST, "the topic is named twice")
            topic, image = self._existing(asked.context, Operation.ALTER, one.name, self._services.surface.image())
            placed = self._judge_growth(topic, one, image, asked.place)
            if tries == 1:
                count_mutations(asked.mutations, one.count - len(topic.partitions))
        except ApiError as error:
            if not asked.doubt.parks(error.code, partial(self._grow_one, asked, times, one, done, tries)):
                error = asked.doubt.error(error)
                done(Outcome(error.code, error.message, one.name))
            return

        def grown(outcome: Outcome) -> None:
            chosen = one.assignments is not None or outcome.code is not Code.INVALID_REPLICA_ASSIGNMENT
            if chosen or tries == limits.PLACEMENTS_MAX:
                done(outcome)
            else:
                self._place_again(partial(self._grow_one, asked, times, one, done, tries + 1), outcome, done)

        self._grow(topic, one, placed, asked, grown)

    def _place_again(self, again: Callable[[], None], outcome: Outcome, done: Callable[[Outcome], None]) -> None:
        """The log refused where partitions were placed: the image here was behind."""

        def told(current: bool) -> None:
            if current:
                again()
            else:
                done(outcome._replace(code=Code.NOT_CONTROLLER, message=UNPROVEN))

        self._services.surface.when_topics_current(told)

    def _grow(
        self, topic: Topic, one: Value, placed: Replicas, asked: "_Asked", done: Callable[[Outcome], None]
    ) -> None:
        outcome = Outcome(Code.NONE, None, one.name)
        if asked.request.validate_only:
            done(outcome)
            return
        command = AddPartitions(topic_id=topic.topic_id, total=one.count, placed=placed)
        grown = tuple(Grown(topic.topic_id, index) for index in range(len(topic.partitions), one.count))
        self._submit(command, asked, outcome._replace(grown=grown), done)

    def _judge_growth(self, topic: Topic, one: Value, image: ClusterImage, place: PlaceForTopics) -> Replicas:
        """Where the new partitions are to be: each with as many replicas as the topic's first, as in Kafka."""
        surface, factor = self._services.surface, len(topic.partitions[0].voters)
        have = len(topic.partitions)
        if one.count <= have:
            raise ApiError(
                Code.INVALID_PARTITIONS, f"topic {topic.name} has {have} partitions; {one.count} is not an increase"
            )
        if one.count - have > limits.PARTITIONS_PER_REQUEST_MAX:
            raise ApiError(Code.POLICY_VIOLATION, f"more than {limits.PARTITIONS_PER_REQUEST_MAX} partitions")
        too_many = place.too_many(one.count - have, image)
        if too_many is not None:
            raise ApiError(Code.POLICY_VIOLATION, too_many)
        if one.assignments is None:
            return placed_replicas(one.count - have, factor, image, place, surface, topic.topic_id)
        if len(one.assignments) != one.count - have:
            raise ApiError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"{one.count - have} partitions are to be added, {len(one.assignments)} are assigned",
            )
        return chosen_replicas([a.broker_ids for a in one.assignments], image, surface.alive, factor)

    # -- both

    def _until_ms(self, request: Value) -> int:
        """Counted from the request: its topics are judged in several turns of the loop."""
        timeout_ms: int = request.timeout_ms
        return self._services.surface.loop.monotonic_ms() + min(timeout_ms, limits.ADMIN_TIMEOUT_MS_MAX)

    def _submit(
        self,
        command: Command,
        asked: "_Asked",
        outcome: Outcome,
        done: Callable[[Outcome], None],
        *,
        by_id: bool = False,
    ) -> None:
        """`by_id`: the client named the topic by its id. The command always names it by id, because another topic may
        have the name when it is applied."""
        if asked.request.timeout_ms <= 0:
            done(outcome._replace(code=Code.REQUEST_TIMED_OUT, message="timeoutMs leaves no time; nothing was changed"))
            return

        def decided(result: CommandResult) -> None:
            code, message = Code(result.error), result.message or None
            if code is Code.UNKNOWN_TOPIC_ID and not by_id:
                code, message = Code.UNKNOWN_TOPIC_OR_PARTITION, None
            done(outcome._replace(code=code, message=message))

        self._services.surface.submit(command, deadline_ms=asked.until_ms, done=decided)


def _ours_to_change(name: str, image: ClusterImage | None) -> tuple[Topic, ClusterImage]:
    """The topic, and the image that has it. Raises ApiError 3 or 44."""
    topic = None if image is None else image.topics.get(name)
    if image is None or topic is None:
        raise ApiError(Code.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.internal:
        raise ApiError(Code.POLICY_VIOLATION, f"{name} belongs to the coordinator")
    return topic, image


def _partitions_created(outcomes: list[Outcome], late: list[Grown]) -> Value:
    unled = {one.topic_id for one in late}
    results = []
    for outcome in outcomes:
        code, message = outcome.code, outcome.message
        if outcome.grown and outcome.grown[0].topic_id in unled and code is Code.NONE:
            code, message = Code.REQUEST_TIMED_OUT, "the partitions are created, but not all have a leader yet"
        results.append({"name": outcome.name, "error_code": code, "error_message": message})
    return {"results": results}


def _deleted(outcome: Outcome) -> Value:
    return {
        "name": outcome.name,
        "topic_id": outcome.topic_id,
        "error_code": outcome.code,
        "error_message": outcome.message,
    }
