"""CreateTopics: validates everything that the request and the image allow, in Kafka's order; the controller log decides
the rest. The answer waits until the new partitions have leaders, within the request's timeout; after that it is error
7, as in Kafka when a topic is created but not ready in time.

Each partition has 1, 3 or 5 replicas, on the brokers that the client names, or else where `controller.placement` puts
them by the image that this broker has; who asks for 2 or 4 gets one more, and is told (ADR 84). When the controller's
log refuses that, because a broker left or lost its folder meanwhile, the topic is judged and placed again by an image
that is shown to be current. Below `MEMBERS_LEVEL` a topic's replicas are all voters of the cluster: any replication
factor from 1 to the number of brokers is accepted, and the answer contains the real one; a manual assignment is
accepted when it lists every broker for each partition, else refused (39).
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.assignments import Replicas, chosen_replicas, judge_numbers, placed_replicas
from muster_coordinator.api.authorize import Operation, Resource, ResourceType
from muster_coordinator.api.changes import NO_TIME, NOT_FORMED, Outcome, place_again, propose, until_ms
from muster_coordinator.api.doubt import PRESENT, Doubt
from muster_coordinator.api.gather import gather_in_turns
from muster_coordinator.api.leader_wait import Grown, LeaderWait, standing_of_grown
from muster_coordinator.api.place_for_topics import PlaceForTopics
from muster_coordinator.api.services import Services, configs_error
from muster_coordinator.api.stream_configs import judge_level, judge_streams
from muster_coordinator.api.topic_entries import CreatedEntries
from muster_coordinator.api.topic_values import values_of
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.controller.image import EMPTY_ID, MEMBERS_LEVEL, ClusterImage
from muster_coordinator.controller.moves import VOTER_COUNTS
from muster_coordinator.controller.placement import default_factor
from muster_coordinator.controller.stream_names import STREAM_CONFIG
from muster_coordinator.controller.topic_configs import validate_all
from muster_coordinator.controller.topic_names import name_error
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.replica.partitions.surface import Surface
from muster_coordinator.topics.stores import REDIS, STORE_CONFIG, Capability
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.throttling import Mutations

_CLUSTER_METADATA = "__cluster_metadata"
_DEFAULT = -1
_THROTTLED_SINCE = 6
_DOUBTFUL = PRESENT | {Code.INVALID_REPLICATION_FACTOR, Code.INVALID_REPLICA_ASSIGNMENT}


class Created(NamedTuple):
    """The answer for one topic."""

    code: Code
    message: str | None = None
    command: CreateTopic | None = None
    """The command that created the topic, or that would have."""
    factor: int = _DEFAULT
    """Of its partitions."""


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
    mutations: Mutations


class CreateTopics:
    """Handler of CreateTopics v2-7."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """Each topic by itself: valid ones are created even when others in the request are not."""
        times = Counter(topic.name for topic in request.topics)
        wanted = sum(max(0, self._partitions(topic)) for topic in request.topics)
        topics = list({topic.name: topic for topic in request.topics}.values())

        ends_ms = until_ms(self._services.surface, request)

        def answered(created: list[Created]) -> None:
            image = self._services.surface.image()
            configs = CreatedEntries(self._services.settings.topic_values)

            def tell(index: int, arrived: Callable[[Value], None]) -> None:
                name = topics[index].name
                arrived(_entry(name, created[index], image, configs if self._shows(context, name) else None))

            loop = self._services.surface.loop
            gather_in_turns(loop, len(topics), tell, lambda entries: reply({"topics": entries}))

        def decided(created: list[Created]) -> None:
            if request.validate_only:
                answered(created)
            else:
                self._when_led(context, created, ends_ms, answered)

        doubt = Doubt(self._services.surface, Code.NOT_CONTROLLER, _DOUBTFUL)
        mutations = reply.mutations(strict=version >= _THROTTLED_SINCE)
        asked = _Asked(context, request, times, wanted, ends_ms, doubt, PlaceForTopics(), mutations)

        def begin(index: int, arrived: Callable[[Created], None]) -> None:
            self._one(asked, topics[index], arrived)

        gather_in_turns(self._services.surface.loop, len(topics), begin, decided)

    def _shows(self, context: RequestContext, topic: str) -> bool:
        services = self._services
        resource = Resource(ResourceType.TOPIC, topic)
        return services.open or services.would_allow(context, Operation.DESCRIBE_CONFIGS, resource)

    def _one(self, asked: "_Asked", topic: Value, done: Callable[[Created], None], tries: int = 1) -> None:
        """`tries`: how often the topic is placed, this time included."""

        def judge() -> tuple[CreateTopic, int]:
            if asked.times[topic.name] > 1:
                raise ApiError(Code.INVALID_REQUEST, "the topic is named twice")
            command, factor = self._judge(asked, topic, self._services.surface.image())
            if tries == 1:
                count_mutations(asked.mutations, command.partitions)
            return command, factor

        def created(outcome: Created) -> None:
            chosen = topic.assignments or outcome.code is not Code.INVALID_REPLICA_ASSIGNMENT
            if chosen or tries == limits.PLACEMENTS_MAX:
                done(outcome)
            else:
                again = partial(self._one, asked, topic, done, tries + 1)
                place_again(self._services.surface, again, lambda outcome: done(Created(*outcome)))

        # What is doubtful may be wrong, if this replica is behind: the topic may have been deleted, a broker have come.
        asked.doubt.judge(
            judge,
            lambda found: self._create(Created(Code.NONE, None, *found), asked, created),
            lambda error: done(Created(error.code, error.message)),
        )

    def _judge(self, asked: "_Asked", topic: Value, image: ClusterImage | None) -> tuple[CreateTopic, int]:
        """The command that creates one topic, and the number of replicas that it will have. Raises ApiError for the
        first fault."""
        if not self._services.may_create(asked.context, topic.name):
            raise ApiError(Code.TOPIC_AUTHORIZATION_FAILED)
        if image is None:
            raise ApiError(Code.NOT_CONTROLLER, NOT_FORMED)
        store = self._services.store
        if not store.can(Capability.TOPICS):
            raise ApiError(Code.POLICY_VIOLATION, f"topics.mode is {store.name}: this cluster has no topics")
        _judge_name(topic.name, image, asked.place)
        factor = self._factor(topic, image)
        configs = self._judge_configs(asked, topic, factor, image)
        _judge_assignments(topic)
        _judge_factor(topic, factor, image)
        partitions = self._partitions(topic)
        if partitions < 1:
            raise ApiError(Code.INVALID_PARTITIONS, f"a topic cannot have {partitions} partitions")
        if asked.wanted > limits.PARTITIONS_PER_REQUEST_MAX:
            raise ApiError(Code.POLICY_VIOLATION, f"more than {limits.PARTITIONS_PER_REQUEST_MAX} partitions")
        too_many = asked.place.too_many(partitions, image)
        if too_many is not None:
            raise ApiError(Code.POLICY_VIOLATION, too_many)
        topic_id = fresh_topic_id(self._services.surface, image)
        placed = self._replicas(asked, topic, topic_id, factor, image)
        command = CreateTopic(name=topic.name, topic_id=topic_id, partitions=partitions, configs=configs, placed=placed)
        return command, factor

    def _factor(self, topic: Value, image: ClusterImage) -> int:
        """How many replicas each partition is to have, possible or not."""
        if image.feature_level < MEMBERS_LEVEL:
            return len(image.voters)
        if topic.assignments:
            return len(topic.assignments[0].broker_ids)
        asked: int = topic.replication_factor
        if asked == _DEFAULT:
            return default_factor(image, self._services.settings.replication_factor)
        return asked + 1 if asked + 1 in VOTER_COUNTS and asked > 0 else asked

    def _replicas(self, asked: "_Asked", topic: Value, topic_id: bytes, factor: int, image: ClusterImage) -> Replicas:
        surface = self._services.surface
        if topic.assignments:
            ordered = sorted(topic.assignments, key=lambda assignment: assignment.partition_index)
            return chosen_replicas([assignment.broker_ids for assignment in ordered], image, surface.alive)
        return placed_replicas(self._partitions(topic), factor, image, asked.place, surface, topic_id)

    def _partitions(self, topic: Value) -> int:
        if topic.assignments:
            return len(topic.assignments)
        asked: int = topic.num_partitions
        return self._services.settings.num_partitions if asked == _DEFAULT else asked

    def _judge_configs(
        self, asked: "_Asked", topic: Value, factor: int, image: ClusterImage
    ) -> tuple[tuple[str, str], ...]:
        overrides: dict[str, str] = {}
        for config in topic.configs:
            if config.value is None:
                raise ApiError(Code.INVALID_CONFIG, f"{config.name}: null value")
            overrides[config.name] = config.value
        server = values_of(self._services.settings.topic_values)
        may_compact = image.feature_level >= MEMBERS_LEVEL
        error = validate_all(overrides, voters=max(1, factor), may_compact=may_compact, server=server)
        store = self._services.store_for(overrides.get(STORE_CONFIG))
        error = error or configs_error(store, overrides)
        if error is not None:
            raise ApiError(Code.INVALID_CONFIG, error)
        if store is REDIS:
            judge_level(image, overrides)
            pattern = overrides.get(STREAM_CONFIG)
            if pattern is not None:
                count, only = self._partitions(topic), asked.request.validate_only
                judge_streams(self._services, asked.context, image, topic.name, count, pattern, validate_only=only)
            overrides[STORE_CONFIG] = store.name
        return tuple(sorted(overrides.items()))

    def _create(self, wanted: Created, asked: "_Asked", done: Callable[[Created], None]) -> None:
        if asked.request.validate_only or wanted.command is None:
            done(wanted)
            return
        if asked.request.timeout_ms <= 0:
            done(Created(*NO_TIME))
            return

        def decided(outcome: Outcome) -> None:
            done(wanted if outcome.code is Code.NONE else Created(*outcome))

        propose(self._services.surface, wanted.command, asked.until_ms, decided)

    def _when_led(
        self, context: RequestContext, created: list[Created], ends_ms: int, done: Callable[[list[Created]], None]
    ) -> None:
        grown = [Grown(c.topic_id, index) for _, _, c, _ in created if c is not None for index in range(c.partitions)]
        surface = self._services.surface

        def waited(late: list[Grown]) -> None:
            ids = {one.topic_id for one in late}
            done([_TOO_LATE if c.command is not None and c.command.topic_id in ids else c for c in created])

        LeaderWait(surface, grown, standing_of_grown(surface, context.listener), ends_ms, waited)


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


def count_mutations(mutations: Mutations, partitions: int) -> None:
    """The last that is judged, as in Kafka, also of a request that only asks. Raises ApiError 89."""
    if not mutations.take(partitions):
        raise ApiError(Code.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")


def _judge_factor(topic: Value, factor: int, image: ClusterImage) -> None:
    asked = topic.replication_factor
    if image.feature_level < MEMBERS_LEVEL:
        if asked != _DEFAULT and not 1 <= asked <= len(image.voters):
            said = f"replication factor {asked} with {len(image.voters)} brokers"
            raise ApiError(Code.INVALID_REPLICATION_FACTOR, said)
    elif not topic.assignments and factor not in VOTER_COUNTS:
        raise ApiError(Code.INVALID_REPLICATION_FACTOR, f"a partition has 1, 3 or 5 replicas, not {factor}")


def _judge_assignments(topic: Value) -> None:
    if not topic.assignments:
        return
    if topic.num_partitions != _DEFAULT or topic.replication_factor != _DEFAULT:
        raise ApiError(Code.INVALID_REQUEST, "with assignments, numPartitions and replicationFactor must be -1")
    judge_numbers([assignment.partition_index for assignment in topic.assignments])


def _entry(name: str, one: Created, image: ClusterImage | None, configs: CreatedEntries | None) -> Value:
    """`configs`: None if the client may not describe them. Then it is not told how many partitions there are either."""
    if one.command is None or image is None:
        return {"name": name, "error_code": one.code, "error_message": one.message, "configs": ()}
    if configs is None:
        return {
            "name": name,
            "error_code": one.code,
            "error_message": one.message,
            "topic_id": one.command.topic_id,
            "topic_config_error_code": Code.TOPIC_AUTHORIZATION_FAILED,
            "num_partitions": -1,
            "replication_factor": -1,
            "configs": None,
        }
    return {
        "name": name,
        "error_code": one.code,
        "error_message": one.message,
        "topic_id": one.command.topic_id,
        "num_partitions": one.command.partitions,
        "replication_factor": one.factor,
        "configs": configs.of(one.command.configs, one.factor, image),
    }
