"""DescribeConfigs and IncrementalAlterConfigs (data_plane.md 5).

Topics have all 33 names of Kafka; this broker shows its settings read-only; groups have no settings of their own yet.
An alteration is computed from one image and proposed together with the overrides it was computed from: the controller
log refuses it when they changed meanwhile, and it is computed once more (`limits.CONFIG_RETRIES_MAX` times).
"""

from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator import limits
from muster_coordinator.api.authorize import Operation, ResourceType
from muster_coordinator.api.gather import Gather
from muster_coordinator.api.services import Services
from muster_coordinator.api.topic_entries import SOURCE_DEFAULT, SOURCE_STATIC, SOURCE_TOPIC, source_and_value
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import AlterTopicConfigs, CommandResult
from muster_coordinator.controller.image import ClusterImage, Topic
from muster_coordinator.controller.topic_configs import CONFIGS, ConfigType, split_list, validate_all, value
from muster_coordinator.controller.topic_names import name_error
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.wire.connection import Exchange
from muster_coordinator.wire.schema import Value

_TOPIC, _BROKER, _LOGGER, _METRICS, _GROUP = 2, 4, 8, 16, 32
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_STRING = int(ConfigType.STRING)


class Altered(NamedTuple):
    """One resource's answer."""

    code: Code
    message: str | None = None


class Configs:
    """Handlers of configuration."""

    def __init__(self, services: Services) -> None:
        self._services = services

    # -- DescribeConfigs

    def describe(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """DescribeConfigs v1-4."""
        results = []
        for resource in request.resources:
            try:
                entries = self._describe(context, resource, request)
                code, message = Code.NONE, ""
            except ApiError as error:
                code, message, entries = error.code, error.message, []
            results.append(
                {
                    "error_code": code,
                    "error_message": message,
                    "resource_type": resource.resource_type,
                    "resource_name": resource.resource_name,
                    "configs": entries,
                }
            )
        reply({"results": results})

    def _describe(self, context: RequestContext, resource: Value, request: Value) -> list[Value]:
        wanted = frozenset(resource.configuration_keys or ())
        if resource.resource_type == _TOPIC:
            topic = self._topic(context, Operation.DESCRIBE_CONFIGS, resource.resource_name)
            return _topic_entries(topic, wanted, request)
        code = self._services.cluster_code(context, Operation.DESCRIBE_CONFIGS)
        if code is not Code.NONE:
            raise ApiError(code)
        if resource.resource_type == _BROKER:
            return self._broker_entries(resource.resource_name, wanted)
        if resource.resource_type in (_LOGGER, _METRICS, _GROUP):
            return []
        raise ApiError(Code.INVALID_REQUEST, f"unknown type of resource {resource.resource_type}")

    def _broker_entries(self, name: str, wanted: frozenset[str]) -> list[Value]:
        """This broker only: clients ask the node they mean. "" is the cluster-wide default, where nothing is set."""
        if name == "":
            return []
        if name != str(self._services.surface.broker):
            raise ApiError(Code.INVALID_REQUEST, f"this is broker {self._services.surface.broker}, not {name}")
        return [
            {
                "name": key,
                "value": text,
                "read_only": True,
                "config_source": SOURCE_STATIC,
                "is_sensitive": False,
                "config_type": _STRING,
                "synonyms": (),
                "documentation": None,
            }
            for key, text in self._services.settings.broker_configs
            if not wanted or key in wanted
        ]

    def _topic(self, context: RequestContext, operation: Operation, name: str) -> Topic:
        if not self._services.may_topic(context, operation, name):
            raise ApiError(Code.TOPIC_AUTHORIZATION_FAILED)
        error = name_error(name)
        if error is not None:
            raise ApiError(Code.INVALID_TOPIC_EXCEPTION, error)
        image = self._services.surface.image()
        topic = None if image is None else image.topics.get(name)
        if topic is None:
            raise ApiError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"no topic {name}")
        return topic

    # -- IncrementalAlterConfigs

    def alter(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """IncrementalAlterConfigs v0-1."""
        resources = request.resources
        named = [(r.resource_type, r.resource_name) for r in resources]

        def answered(outcomes: list[Altered]) -> None:
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

        gather: Gather[Altered] = Gather(len(resources), answered)
        for index, resource in enumerate(resources):
            twice = named.count((resource.resource_type, resource.resource_name)) > 1
            if twice:
                gather.part(index)(Altered(Code.INVALID_REQUEST, "the resource is named twice"))
            else:
                self._alter(context, resource, request.validate_only, gather.part(index), limits.CONFIG_RETRIES_MAX)

    def _alter(
        self,
        context: RequestContext,
        resource: Value,
        validate_only: bool,
        done: Callable[[Altered], None],
        tries: int,
    ) -> None:
        try:
            command = self._command(context, resource)
        except ApiError as error:
            done(Altered(error.code, error.message))
            return
        if validate_only or command.configs == command.expected:
            done(Altered(Code.NONE))
            return

        def decided(result: CommandResult) -> None:
            if result.error == Code.INVALID_REQUEST and tries > 0 and self._moved_on(command):
                self._alter(context, resource, validate_only, done, tries - 1)
            else:
                done(Altered(Code(result.error), result.message or None))

        self._services.surface.submit(command, deadline_ms=context.deadline_ms, done=decided)

    def _moved_on(self, command: AlterTopicConfigs) -> bool:
        """Whether the image now shows other overrides than the command was computed from."""
        image = self._services.surface.image()
        assert image is not None
        name = image.names_by_id.get(command.topic_id)
        return name is not None and image.topics[name].configs != command.expected

    def _command(self, context: RequestContext, resource: Value) -> AlterTopicConfigs:
        if resource.resource_type != _TOPIC:
            code = self._services.cluster_code(context, Operation.ALTER_CONFIGS)
            if code is not Code.NONE:
                raise ApiError(code)
            if resource.resource_type == _BROKER:
                raise ApiError(Code.POLICY_VIOLATION, "a broker's settings are changed in its configuration file")
            raise ApiError(Code.INVALID_REQUEST, f"configs of type {resource.resource_type} cannot be changed")
        topic = self._topic(context, Operation.ALTER_CONFIGS, resource.resource_name)
        if topic.internal:
            raise ApiError(Code.POLICY_VIOLATION, f"{topic.name} belongs to the coordinator")
        image = self._services.surface.image()
        assert image is not None
        return AlterTopicConfigs(
            topic_id=topic.topic_id, expected=topic.configs, configs=_altered(topic, resource.configs, image)
        )


def _topic_entries(topic: Topic, wanted: frozenset[str], request: Value) -> list[Value]:
    overrides = dict(topic.configs)
    entries = []
    for name, definition in CONFIGS.items():
        if wanted and name not in wanted:
            continue
        source, text = source_and_value(definition, overrides)
        synonyms = []
        if request.include_synonyms:
            if source == SOURCE_TOPIC:
                synonyms.append({"name": name, "value": text, "source": SOURCE_TOPIC})
            synonyms.append({"name": name, "value": definition.default, "source": SOURCE_DEFAULT})
        entries.append(
            {
                "name": name,
                "value": text,
                "read_only": topic.internal,
                "config_source": source,
                "is_sensitive": False,
                "synonyms": synonyms,
                "config_type": int(definition.type),
                "documentation": definition.documentation if request.include_documentation else None,
            }
        )
    return entries


def _altered(topic: Topic, changes: tuple[Value, ...], image: ClusterImage) -> tuple[tuple[str, str], ...]:
    """The topic's overrides after the changes. ApiError 42 for malformed changes, 40 for bad names or values."""
    names = [change.name for change in changes]
    if len(set(names)) < len(names):
        raise ApiError(Code.INVALID_REQUEST, "a config is named twice")
    overrides = dict(topic.configs)
    for change in changes:
        if change.config_operation not in (_SET, _DELETE, _APPEND, _SUBTRACT):
            raise ApiError(Code.INVALID_REQUEST, f"unknown operation {change.config_operation}")
        if change.config_operation == _DELETE:
            overrides.pop(change.name, None)
            continue
        if change.value is None:
            raise ApiError(Code.INVALID_REQUEST, f"{change.name}: null value")
        definition = CONFIGS.get(change.name)
        if definition is None:
            raise ApiError(Code.INVALID_CONFIG, f"unknown topic config {change.name}")
        if change.config_operation == _SET:
            overrides[change.name] = change.value
            continue
        if definition.type is not ConfigType.LIST:
            raise ApiError(Code.INVALID_CONFIG, f"{change.name} is no list")
        have, more = split_list(value(overrides, change.name)), split_list(change.value)
        if change.config_operation == _APPEND:
            overrides[change.name] = ",".join([*have, *(item for item in more if item not in have)])
        else:
            overrides[change.name] = ",".join(item for item in have if item not in more)
    error = validate_all(overrides, voters=len(image.voters))
    if error is not None:
        raise ApiError(Code.INVALID_CONFIG, error)
    return tuple(sorted(overrides.items()))


assert int(ResourceType.TOPIC) == _TOPIC
