"""CreateTopics: validates everything that the request and the image allow, in Kafka's order; the controller log decides
the rest. The answer waits until the new partitions have leaders, within the request's timeout; after that it is error
7, as in Kafka when a topic is created but not ready in time.

Until placement exists a topic's replicas are all voters of the cluster. So any replication factor from 1 to the number
of brokers is accepted, and the answer contains the real one; a manual assignment is accepted when it lists every broker
for each partition, else refused (39).
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.assignments import judge_numbers, judge_replicas
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.doubt import PRESENT, Doubt
from muster_coordinator.api.gather import gather_in_turns
from muster_coordinator.api.leader_wait import Grown, LeaderWait, standing_of_grown
from muster_coordinator.api.place_for_topics import PlaceForTopics
from muster_coordinator.api.services import Services, TopicsMode
from muster_coordinator.api.topic_entries import CreatedEntries
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import CommandResult, CreateTopic
from muster_coordinator.controller.image import EMPTY_ID, ClusterImage
from muster_coordinator.controller.topic_configs import validate_all
from muster_coordinator.controller.topic_names import name_error
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.replica.partitions.surface import Surface
from muster_coordinator.wire.connection import Exchange
from muster_coordinator.wire.schema import Value

_CLUSTER_METADATA = "__cluster_metadata"
_DEFAULT = -1


class Created(NamedTuple):
    """The answer for one topic."""

    code: Code
    message: str | None = None
    command: CreateTopic | None = None
    """The command that created the topic, or that would have."""


_TOO_LATE = Created(Code.REQUEST_TIMED_OUT, "the topic is created, but not all of its partitions have a leader yet")


class _Asked(NamedTuple):
    """One request, with what each of its topics needs."""

    context: RequestContext
    request: Value
    times: Counter[str]
    """How often each topic is in the request."""
    wanted: int
    """Number of partitions of all its topics."""
    until_ms: int
    doubt: Doubt
    place: PlaceForTopics


class CreateTopics:
    """Handler of CreateTopics v2-7."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """Each topic by itself: valid ones are created even when others in the request are not."""
        times = Counter(topic.name for topic in request.topics)
        wanted = sum(max(0, self._partitions(topic)) for topic in request.topics)
        topics = list({topic.name: topic for topic in request.topics}.values())

        until_ms = self._services.surface.loop.monotonic_ms() + min(request.timeout_ms, limits.ADMIN_TIMEOUT_MS_MAX)

        def answered(created: list[Created]) -> None:
            image = self._services.surface.image()
            configs = CreatedEntries()
            entries = [_entry(topic.name, one, image, configs) for topic, one in zip(topics, created, strict=True)]
            reply({"topics": entries})

        def decided(created: list[Created]) -> None:
            if request.validate_only:
                answered(created)
            else:
                self._when_led(context, created, until_ms, answered)

        doubt = Doubt(self._services.surface, Code.NOT_CONTROLLER, PRESENT)
        asked = _Asked(context, request, times, wanted, until_ms, doubt, PlaceForTopics())

        def begin(index: int, arrived: Callable[[Created], None]) -> None:
            self._one(asked, topics[index], arrived)

        gather_in_turns(self._services.surface.loop, len(topics), begin, decided)

    def _one(self, asked: "_Asked", topic: Value, done: Callable[[Created], None]) -> None:
        try:
            if asked.times[topic.name] > 1:
                raise ApiError(Code.INVALID_REQUEST, "the topic is named twice")
            command = self._judge(asked, topic, self._services.surface.image())
        except ApiError as error:
            # TOPIC_ALREADY_EXISTS may be wrong: if this replica is behind, the topic may have been deleted.
            if not asked.doubt.parks(error.code, partial(self._one, asked, topic, done)):
                error = asked.doubt.error(error)
                done(Created(error.code, error.message))
            return
        self._create(command, asked.request, asked.until_ms, done)

    def _judge(self, asked: "_Asked", topic: Value, image: ClusterImage | None) -> CreateTopic:
        """The command that creates one topic. Raises ApiError for the first fault."""
        if not self._services.may_topic(asked.context, Operation.CREATE, topic.name):
            raise ApiError(Code.TOPIC_AUTHORIZATION_FAILED)
        if image is None:
            raise ApiError(Code.NOT_CONTROLLER, "the cluster is not formed yet")
        if self._services.settings.topics_mode is TopicsMode.NONE:
            raise ApiError(Code.POLICY_VIOLATION, "topics.mode is none: this cluster has no topics")
        _judge_name(topic.name, image, asked.place)
        configs = self._judge_configs(topic, image)
        _judge_assignments(topic, image)
        if topic.replication_factor != _DEFAULT and not 1 <= topic.replication_factor <= len(image.voters):
            raise ApiError(
                Code.INVALID_REPLICATION_FACTOR,
                f"replication factor {topic.replication_factor} with {len(image.voters)} brokers",
            )
        partitions = self._partitions(topic)
        if partitions < 1:
            raise ApiError(Code.INVALID_PARTITIONS, f"a topic cannot have {partitions} partitions")
        if asked.wanted > limits.PARTITIONS_PER_REQUEST_MAX:
            raise ApiError(Code.POLICY_VIOLATION, f"more than {limits.PARTITIONS_PER_REQUEST_MAX} partitions")
        too_many = asked.place.too_many(partitions, image)
        if too_many is not None:
            raise ApiError(Code.POLICY_VIOLATION, too_many)
        return CreateTopic(
            name=topic.name,
            topic_id=fresh_topic_id(self._services.surface, image),
            partitions=partitions,
            configs=configs,
        )

    def _partitions(self, topic: Value) -> int:
        if topic.assignments:
            return len(topic.assignments)
        asked: int = topic.num_partitions
        return self._services.settings.num_partitions if asked == _DEFAULT else asked

    @staticmethod
    def _judge_configs(topic: Value, image: ClusterImage) -> tuple[tuple[str, str], ...]:
        overrides: dict[str, str] = {}
        for config in topic.configs:
            if config.value is None:
                raise ApiError(Code.INVALID_CONFIG, f"{config.name}: null value")
            overrides[config.name] = config.value
        error = validate_all(overrides, voters=len(image.voters))
        if error is not None:
            raise ApiError(Code.INVALID_CONFIG, error)
        return tuple(sorted(overrides.items()))

    def _create(self, command: CreateTopic, request: Value, until_ms: int, done: Callable[[Created], None]) -> None:
        if request.validate_only:
            done(Created(Code.NONE, None, command))
            return
        if request.timeout_ms <= 0:
            done(Created(Code.REQUEST_TIMED_OUT, "timeoutMs leaves no time; nothing was changed"))
            return

        def decided(result: CommandResult) -> None:
            code = Code(result.error)
            done(Created(code, result.message or None, command if code is Code.NONE else None))

        self._services.surface.submit(command, deadline_ms=until_ms, done=decided)

    def _when_led(
        self, context: RequestContext, created: list[Created], until_ms: int, done: Callable[[list[Created]], None]
    ) -> None:
        grown = [Grown(c.topic_id, index) for _, _, c in created if c is not None for index in range(c.partitions)]
        surface = self._services.surface

        def waited(late: list[Grown]) -> None:
            ids = {one.topic_id for one in late}
            done([_TOO_LATE if c.command is not None and c.command.topic_id in ids else c for c in created])

        LeaderWait(surface, grown, standing_of_grown(surface, context.listener), until_ms, waited)


def _judge_name(name: str, image: ClusterImage, place: PlaceForTopics) -> None:
    error = name_error(name)
    if error is not None:
        raise ApiError(Code.INVALID_TOPIC_EXCEPTION, error)
    if name == _CLUSTER_METADATA:
        raise ApiError(Code.INVALID_REQUEST, "this name is reserved")
    if name in image.topics:
        raise ApiError(Code.TOPIC_ALREADY_EXISTS, f"topic {name} exists")
    other = place.colliding(name, image)
    if other is not None:
        raise ApiError(Code.INVALID_TOPIC_EXCEPTION, f"topic {name} collides with {other} in metric names")


def fresh_topic_id(surface: Surface, image: ClusterImage) -> bytes:
    """A random id: never zero, never one that was used before (trap T2)."""
    while True:
        topic_id = surface.rand.randbytes(16)
        if topic_id != EMPTY_ID and topic_id not in image.names_by_id and topic_id not in image.deleted_topic_ids:
            return topic_id


def _judge_assignments(topic: Value, image: ClusterImage) -> None:
    if not topic.assignments:
        return
    if topic.num_partitions != _DEFAULT or topic.replication_factor != _DEFAULT:
        raise ApiError(Code.INVALID_REQUEST, "with assignments, numPartitions and replicationFactor must be -1")
    judge_numbers([assignment.partition_index for assignment in topic.assignments])
    judge_replicas([assignment.broker_ids for assignment in topic.assignments], image)


def _entry(name: str, one: Created, image: ClusterImage | None, configs: CreatedEntries) -> Value:
    if one.command is None or image is None:
        return {"name": name, "error_code": one.code, "error_message": one.message, "configs": ()}
    return {
        "name": name,
        "error_code": one.code,
        "error_message": one.message,
        "topic_id": one.command.topic_id,
        "num_partitions": one.command.partitions,
        "replication_factor": len(image.voters),
        "configs": configs.of(one.command.configs),
    }
