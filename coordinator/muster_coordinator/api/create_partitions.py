"""CreatePartitions: more partitions for a topic, each with as many replicas as the topic's first.

It is answered when the new partitions have leaders, or with 7 when the request's time is over, as CreateTopics is.
Internal topics are refused with error 44. Where the new replicas are to be, the client says, or else
`controller.placement` by the image that this broker has; when the controller's log refuses that, they are placed again
by an image that is shown to be current.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.assignments import Replicas, chosen_replicas, placed_replicas
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.changes import (
    DONE,
    NO_TIME,
    Outcome,
    changeable_topic,
    place_again,
    propose,
    refused,
    until_ms,
)
from muster_coordinator.api.create_topics import count_mutations
from muster_coordinator.api.doubt import ABSENT, Doubt
from muster_coordinator.api.gather import gather_in_turns
from muster_coordinator.api.leader_wait import Grown, LeaderWait, standing_of_grown
from muster_coordinator.api.place_for_topics import PlaceForTopics
from muster_coordinator.api.services import Services
from muster_coordinator.api.stream_configs import may_have_more
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import AddPartitions
from muster_coordinator.controller.image import ClusterImage, Topic
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.throttling import Mutations

_THROTTLED_SINCE = 3
_DOUBTFUL = ABSENT | {Code.INVALID_REPLICATION_FACTOR, Code.INVALID_REPLICA_ASSIGNMENT}
_TOO_LATE = Outcome(Code.REQUEST_TIMED_OUT, "the partitions are created, but not all have a leader yet")


class Enlarged(NamedTuple):
    """The answer for one topic."""

    name: str
    outcome: Outcome
    grown: tuple[Grown, ...] = ()
    """Partitions that were added."""


class _Asked(NamedTuple):
    """One request, with what each of its topics needs."""

    context: RequestContext
    request: Value
    until_ms: int
    """When its time is over, on the monotonic clock."""
    doubt: Doubt
    place: PlaceForTopics
    mutations: Mutations


class CreatePartitions:
    """Handler of CreatePartitions v0-3."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """Each topic by itself; answered when the new partitions of all have leaders, or the request's time is over."""
        times = Counter(topic.name for topic in request.topics)
        once = list({topic.name: topic for topic in request.topics}.values())
        surface = self._services.surface
        ends_ms = until_ms(surface, request)

        def decided(enlarged: list[Enlarged]) -> None:
            grown = [new for one in enlarged if one.outcome.code is Code.NONE for new in one.grown]
            standing = standing_of_grown(surface, context.listener)
            LeaderWait(surface, grown, standing, ends_ms, lambda late: reply(_results(enlarged, late)))

        doubt = Doubt(surface, Code.NOT_CONTROLLER, _DOUBTFUL)
        mutations = reply.mutations(strict=version >= _THROTTLED_SINCE)
        asked = _Asked(context, request, ends_ms, doubt, PlaceForTopics(), mutations)

        def begin(index: int, arrived: Callable[[Enlarged], None]) -> None:
            one = once[index]
            self._one(asked, times[one.name], one, arrived)

        gather_in_turns(surface.loop, len(once), begin, decided)

    def _one(self, asked: _Asked, times: int, one: Value, done: Callable[[Enlarged], None], tries: int = 1) -> None:
        """`tries`: how often the partitions are placed, this time included."""
        surface = self._services.surface

        def judge() -> tuple[Topic, Replicas]:
            if times > 1:
                raise ApiError(Code.INVALID_REQUEST, "the topic is named twice")
            if not self._services.may_topic(asked.context, Operation.ALTER, one.name):
                raise ApiError(Code.TOPIC_AUTHORIZATION_FAILED)
            topic, image = changeable_topic(one.name, surface.image())
            placed = self._judge(topic, one, image, asked.place)
            if tries == 1:
                count_mutations(asked.mutations, one.count - len(topic.partitions))
            return topic, placed

        def grown(enlarged: Enlarged) -> None:
            chosen = one.assignments is not None or enlarged.outcome.code is not Code.INVALID_REPLICA_ASSIGNMENT
            if chosen or tries == limits.PLACEMENTS_MAX:
                done(enlarged)
            else:
                again = partial(self._one, asked, times, one, done, tries + 1)
                place_again(surface, again, lambda outcome: done(enlarged._replace(outcome=outcome)))

        asked.doubt.judge(
            judge,
            lambda found: self._grow(asked, one, *found, grown),
            lambda error: done(Enlarged(one.name, refused(error))),
        )

    def _grow(
        self, asked: _Asked, one: Value, topic: Topic, placed: Replicas, done: Callable[[Enlarged], None]
    ) -> None:
        grown = tuple(Grown(topic.topic_id, index) for index in range(len(topic.partitions), one.count))
        if asked.request.validate_only:
            done(Enlarged(one.name, DONE))
        elif asked.request.timeout_ms <= 0:
            done(Enlarged(one.name, NO_TIME, grown))
        else:
            command = AddPartitions(topic_id=topic.topic_id, total=one.count, placed=placed)
            propose(
                self._services.surface,
                command,
                asked.until_ms,
                lambda outcome: done(Enlarged(one.name, outcome.by_name(), grown)),
            )

    def _judge(self, topic: Topic, one: Value, image: ClusterImage, place: PlaceForTopics) -> Replicas:
        """Where the new partitions are to be: each with as many replicas as the topic's first, as in Kafka."""
        surface, factor = self._services.surface, len(topic.partitions[0].voters)
        have = len(topic.partitions)
        if one.count <= have:
            raise ApiError(
                Code.INVALID_PARTITIONS, f"topic {topic.name} has {have} partitions; {one.count} is not an increase"
            )
        if not may_have_more(topic):
            why = f"topic {topic.name} is one stream: its redis.stream has no {{partition}}"
            raise ApiError(Code.INVALID_PARTITIONS, why)
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


def _results(enlarged: list[Enlarged], late: list[Grown]) -> Value:
    unled = {one.topic_id for one in late}
    results = []
    for one in enlarged:
        outcome = one.outcome
        if one.grown and one.grown[0].topic_id in unled and outcome.code is Code.NONE:
            outcome = _TOO_LATE
        results.append({"name": one.name, "error_code": outcome.code, "error_message": outcome.message})
    return {"results": results}
