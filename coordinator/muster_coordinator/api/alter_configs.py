"""IncrementalAlterConfigs and AlterConfigs: changing the overrides of topics and brokers (protocol notes 15).

AlterConfigs is the older API and replaces all overrides: a config that it does not name returns to its default. Many
tools know only that one. In both, the new overrides are computed from one image and proposed together with the
overrides that they were computed from. The controller log refuses them if those changed meanwhile, and they are
computed anew (at most `limits.CONFIG_RETRIES_MAX` times). Of the settings of brokers only the throttles of moves are
changed here (`controller.broker_configs`, ADR 46), the others in the brokers' files. There is no throttle between
folders of one broker: who removes it, as `kafka-reassign-partitions --verify` does after each move, finds none set.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial

from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.changes import DONE, NOT_FORMED, Outcome, propose, refused
from muster_coordinator.api.configs import BROKER, GROUP, TOPIC, existing_topic
from muster_coordinator.api.doubt import UNPROVEN, Doubt
from muster_coordinator.api.gather import gather_in_turns
from muster_coordinator.api.services import Services, configs_error
from muster_coordinator.api.stream_configs import kept
from muster_coordinator.api.topic_values import values_of
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.broker_configs import BROKER_CONFIGS, broker_config_error
from muster_coordinator.controller.commands import AlterBrokerConfigs, AlterTopicConfigs
from muster_coordinator.controller.image import EVERY_BROKER, MEMBERS_LEVEL, ClusterImage, Topic
from muster_coordinator.controller.limits import BROKER_ID_MAX
from muster_coordinator.controller.topic_configs import CONFIGS, ConfigType, split_list, validate_all, value
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_BETWEEN_FOLDERS = "replica.alter.log.dirs.io.max.bytes.per.second"
_TOPIC_THROTTLES = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
Overrides = tuple[tuple[str, str], ...]
Change = Callable[[Overrides, tuple[Value, ...]], dict[str, str]]
"""The overrides of a resource after the changes of a request, not judged yet; raises ApiError when these are malformed.
"""
Alteration = AlterTopicConfigs | AlterBrokerConfigs


class AlterConfigs:
    """Handlers of both APIs."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def incremental(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """IncrementalAlterConfigs v0-1."""
        self._each(context, request, _changed, reply)

    def replacing(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """AlterConfigs v0-2."""
        self._each(context, request, _replaced, reply)

    def _each(self, context: RequestContext, request: Value, change: Change, reply: Exchange) -> None:
        resources = request.resources
        times = Counter((r.resource_type, r.resource_name) for r in resources)

        def answered(outcomes: list[Outcome]) -> None:
            responses = [
                {
                    "error_code": outcome.code,
                    "error_message": outcome.message,
                    "resource_type": resource.resource_type,
                    "resource_name": resource.resource_name,
                }
                for resource, outcome in zip(resources, outcomes, strict=True)
            ]
            reply({"responses": responses})

        doubt = Doubt(self._services.surface, Code.NOT_CONTROLLER)

        def begin(index: int, arrived: Callable[[Outcome], None]) -> None:
            resource = resources[index]
            if times[resource.resource_type, resource.resource_name] > 1:
                arrived(Outcome(Code.INVALID_REQUEST, "the resource is named twice"))
            else:
                make = partial(self._command, context, resource, change)
                self._alter(context, make, request.validate_only, doubt, arrived, limits.CONFIG_RETRIES_MAX)

        gather_in_turns(self._services.surface.loop, len(resources), begin, answered)

    def _alter(
        self,
        context: RequestContext,
        make: Callable[[], Alteration],
        validate_only: bool,
        doubt: Doubt,
        done: Callable[[Outcome], None],
        tries: int,
    ) -> None:
        def judged(command: Alteration) -> None:
            if validate_only:
                done(DONE)
                return
            again = partial(self._alter, context, make, validate_only, doubt, done, tries - 1)
            if command.configs == command.expected:
                self._unchanged(command, again, done, tries)
            else:
                decided = partial(self._decided, command, again, done, tries)
                propose(self._services.surface, command, context.deadline_ms, decided)

        doubt.judge(make, judged, lambda error: done(refused(error)))

    def _decided(
        self,
        command: Alteration,
        again: Callable[[], None],
        done: Callable[[Outcome], None],
        tries: int,
        outcome: Outcome,
    ) -> None:
        outcome = outcome.by_name()
        if outcome.code is not Code.INVALID_REQUEST or tries == 0:
            done(outcome)
            return

        def current(shown: bool) -> None:
            if shown and self._moved_on(command):
                again()
            else:
                done(outcome)

        # The concurrent change may have been proposed by another replica, and not be applied here yet.
        self._services.surface.when_topics_current(current)

    def _unchanged(
        self, command: Alteration, again: Callable[[], None], done: Callable[[Outcome], None], tries: int
    ) -> None:
        """The command changes nothing. Before the answer says so, confirm that the image is current: it may lack a
        change that another replica has answered, and that this request is to undo."""

        def current(shown: bool) -> None:
            if not shown:
                done(Outcome(Code.NOT_CONTROLLER, UNPROVEN))
            elif tries > 0 and self._moved_on(command):
                again()
            else:
                done(DONE)

        self._services.surface.when_topics_current(current)

    def _moved_on(self, command: Alteration) -> bool:
        """Whether the image has other overrides now than those that the command was computed from."""
        image = self._services.surface.image()
        assert image is not None, "the command was computed from one"
        if isinstance(command, AlterBrokerConfigs):
            return image.broker_configs.get(command.broker, ()) != command.expected
        name = image.names_by_id.get(command.topic_id)
        return name is not None and image.topics[name].configs != command.expected

    def _command(self, context: RequestContext, resource: Value, change: Change) -> Alteration:
        """Raises ApiError."""
        if resource.resource_type == GROUP and not self._services.may_group(
            context, Operation.ALTER_CONFIGS, resource.resource_name
        ):
            raise ApiError(Code.GROUP_AUTHORIZATION_FAILED)
        if resource.resource_type not in (TOPIC, GROUP):
            code = self._services.cluster_code(context, Operation.ALTER_CONFIGS)
            if code is not Code.NONE:
                raise ApiError(code)
            if resource.resource_type == BROKER:
                return self._of_broker(resource, change)
        if resource.resource_type != TOPIC:
            raise ApiError(Code.INVALID_REQUEST, f"configs of type {resource.resource_type} cannot be changed")
        topic, image = existing_topic(self._services, context, Operation.ALTER_CONFIGS, resource.resource_name)
        if topic.internal:
            if change is _changed and all(one.name in _TOPIC_THROTTLES for one in resource.configs):
                # Kafka's tools set and remove them around a move; they mean nothing here (ADR 46).
                return AlterTopicConfigs(topic_id=topic.topic_id, expected=topic.configs, configs=topic.configs)
            raise ApiError(Code.POLICY_VIOLATION, f"{topic.name} belongs to the coordinator")
        configs = _judged(change(topic.configs, resource.configs), topic, image, self._services)
        return AlterTopicConfigs(topic_id=topic.topic_id, expected=topic.configs, configs=configs)

    def _of_broker(self, resource: Value, change: Change) -> AlterBrokerConfigs:
        image = self._services.surface.image()
        if image is None:
            raise ApiError(Code.NOT_CONTROLLER, NOT_FORMED)
        broker = _named_broker(resource.resource_name)
        known = image.broker_configs.get(broker, ())
        in_the_file = [one.name for one in resource.configs if one.name not in BROKER_CONFIGS and not _is_unset(one)]
        if in_the_file or change is _replaced:
            raise ApiError(Code.POLICY_VIOLATION, "a broker's settings are changed in its configuration file")
        overrides = change(known, resource.configs)
        for name, text in overrides.items():
            error = broker_config_error(name, text)
            if error is not None:
                raise ApiError(Code.INVALID_CONFIG, error)
        return AlterBrokerConfigs(broker=broker, expected=known, configs=tuple(sorted(overrides.items())))


def _is_unset(change: Value) -> bool:
    """Does it remove what is never set?"""
    return bool(change.config_operation == _DELETE and change.name == _BETWEEN_FOLDERS)


def _named_broker(name: str) -> BrokerId:
    """The broker of a resource's name; without one, the defaults of all."""
    if name == "":
        return EVERY_BROKER
    if not (name.isascii() and name.isdigit()) or len(name) > 10 or int(name) > BROKER_ID_MAX:
        raise ApiError(Code.INVALID_REQUEST, f"{name!r} is no id of a broker")
    return BrokerId(int(name))


def _changed(before: Overrides, changes: tuple[Value, ...]) -> dict[str, str]:
    """The overrides after the changes. Raises ApiError 42 for malformed changes, 40 for a change of what is no list."""
    _refuse_twice(changes)
    overrides = dict(before)
    for change in changes:
        if change.config_operation not in (_SET, _DELETE, _APPEND, _SUBTRACT):
            raise ApiError(Code.INVALID_REQUEST, f"unknown operation {change.config_operation}")
        if change.config_operation == _DELETE:
            overrides.pop(change.name, None)
            continue
        if change.value is None:
            raise ApiError(Code.INVALID_REQUEST, f"{change.name}: null value")
        if change.config_operation == _SET:
            overrides[change.name] = change.value
            continue
        definition = CONFIGS.get(change.name)
        if definition is None or definition.type is not ConfigType.LIST:
            raise ApiError(Code.INVALID_CONFIG, f"{change.name} is not a list")
        have, more = split_list(value(overrides, change.name)), split_list(change.value)
        if change.config_operation == _APPEND:
            overrides[change.name] = ",".join([*have, *(item for item in more if item not in have)])
        else:
            overrides[change.name] = ",".join(item for item in have if item not in more)
    return overrides


def _replaced(_before: Overrides, wanted: tuple[Value, ...]) -> dict[str, str]:
    """Exactly the overrides of the request, whatever there were before. Errors as `_changed`."""
    _refuse_twice(wanted)
    overrides: dict[str, str] = {}
    for one in wanted:
        if one.value is None:
            raise ApiError(Code.INVALID_REQUEST, f"{one.name}: null value")
        overrides[one.name] = one.value
    return overrides


def _refuse_twice(changes: tuple[Value, ...]) -> None:
    if len({change.name for change in changes}) < len(changes):
        raise ApiError(Code.INVALID_REQUEST, "a config is named twice")


def _judged(overrides: dict[str, str], topic: Topic, image: ClusterImage, services: Services) -> Overrides:
    voters = min(len(partition.voters) for partition in topic.partitions)
    server = values_of(services.settings.topic_values)
    may_compact = image.feature_level >= MEMBERS_LEVEL
    error = validate_all(overrides, voters=voters, may_compact=may_compact, server=server)
    error = error or kept(topic, overrides) or configs_error(services.store_of(topic), overrides)
    if error is not None:
        raise ApiError(Code.INVALID_CONFIG, error)
    return tuple(sorted(overrides.items()))
