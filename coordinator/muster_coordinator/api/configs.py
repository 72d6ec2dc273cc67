"""DescribeConfigs (protocol notes 15). Topics have all 33 of Kafka's names, with what is in force (`topic_values`); a
broker shows its settings read-only, those of its file and the others' defaults, and the throttles of moves that were
set since (ADR 46); groups have no settings yet. Changes are in `alter_configs`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from muster_coordinator.api.authorize import Operation, ResourceType
from muster_coordinator.api.doubt import Doubt
from muster_coordinator.api.gather import gather_in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.api.topic_values import (
    SOURCE_DEFAULT,
    SOURCE_DYNAMIC,
    SOURCE_DYNAMIC_DEFAULT,
    SOURCE_STATIC,
    of_topic,
    sources,
)
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.broker_configs import BROKER_CONFIGS
from muster_coordinator.controller.image import EVERY_BROKER, MEMBERS_LEVEL, ClusterImage, Topic
from muster_coordinator.controller.placement import default_factor
from muster_coordinator.controller.topic_configs import ConfigType, shown
from muster_coordinator.controller.topic_names import name_error
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

TOPIC, BROKER, _LOGGER, _METRICS, GROUP = 2, 4, 8, 16, 32
"""Types of org.apache.kafka.common.config.ConfigResource."""
_STRING, _LONG = int(ConfigType.STRING), int(ConfigType.LONG)

_FACTOR = "default.replication.factor"


class _Named(NamedTuple):
    """A resource of a request."""

    type: int
    name: str
    keys: frozenset[str]
    """The configs that are asked for; empty: all."""


def _once(resources: Sequence[Value]) -> list[_Named]:
    """Each resource once, whatever it is named for. A topic of 5 characters has 33 configs."""
    keys: dict[tuple[int, str], set[str]] = {}
    whole = set()
    """Those of which all configs are asked for."""
    for resource in resources:
        key, wanted = (resource.resource_type, resource.resource_name), resource.configuration_keys
        keys.setdefault(key, set()).update(wanted or ())
        if not wanted:
            whole.add(key)
    return [_Named(*key, frozenset() if key in whole else frozenset(wanted)) for key, wanted in keys.items()]


class Configs:
    """Handler of DescribeConfigs."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def describe(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """DescribeConfigs v1-4: each resource by itself, and once, with all configs for which it is named."""
        resources = _once(request.resources)
        doubt = Doubt(self._services.surface, Code.REQUEST_TIMED_OUT)

        def begin(index: int, arrived: Callable[[Value], None]) -> None:
            self._one(context, resources[index], request, doubt, arrived)

        loop = self._services.surface.loop
        gather_in_turns(loop, len(resources), begin, lambda results: reply({"results": results}))

    def _one(
        self, context: RequestContext, resource: _Named, request: Value, doubt: Doubt, done: Callable[[Value], None]
    ) -> None:
        try:
            entries = self._describe(context, resource, request)
            code, message = Code.NONE, ""
        except ApiError as error:
            if doubt.parks(error.code, partial(self._one, context, resource, request, doubt, done)):
                return
            error = doubt.error(error)
            code, message, entries = error.code, error.message, []
        done(
            {
                "error_code": code,
                "error_message": message,
                "resource_type": resource.type,
                "resource_name": resource.name,
                "configs": entries,
            }
        )

    def _describe(self, context: RequestContext, resource: _Named, request: Value) -> list[Value]:
        wanted = resource.keys
        if resource.type == TOPIC:
            topic, image = existing_topic(self._services, context, Operation.DESCRIBE_CONFIGS, resource.name)
            return self._topic_entries(topic, image, wanted, request)
        if resource.type == GROUP:
            if not self._services.may_group(context, Operation.DESCRIBE_CONFIGS, resource.name):
                raise ApiError(Code.GROUP_AUTHORIZATION_FAILED)
            return []
        code = self._services.cluster_code(context, Operation.DESCRIBE_CONFIGS)
        if code is not Code.NONE:
            raise ApiError(code)
        if resource.type == BROKER:
            return self._broker_entries(resource.name, wanted, request)
        if resource.type in (_LOGGER, _METRICS):
            return []
        raise ApiError(Code.INVALID_REQUEST, f"unknown type of resource {resource.type}")

    def _broker_entries(self, name: str, wanted: frozenset[str], request: Value) -> list[Value]:
        """The settings of this broker only: clients ask the broker that they mean. Name "" stands for the defaults of
        all."""
        if name == "":
            return self._changed_entries(EVERY_BROKER, wanted, request)
        broker = self._services.surface.broker
        if name != str(broker):
            raise ApiError(Code.INVALID_REQUEST, f"this is broker {broker}, not {name}")
        in_force = {_FACTOR: self._default_factor()}
        return [
            *self._changed_entries(broker, wanted, request),
            *(
                {
                    "name": key,
                    "value": (in_force.get(key) or text) or None,
                    "read_only": True,
                    "config_source": SOURCE_STATIC if key in self._services.settings.file_keys else SOURCE_DEFAULT,
                    "is_sensitive": False,
                    "config_type": _STRING,
                    "synonyms": (),
                    "documentation": None,
                }
                for key, text in self._services.settings.broker_configs
                if not wanted or key in wanted
            ),
        ]

    def _changed_entries(self, broker: BrokerId, wanted: frozenset[str], request: Value) -> list[Value]:
        """What the controller's log has of a broker, and of all where it has nothing of its own."""
        image = self._services.surface.image()
        if image is None:
            return []
        found: dict[str, list[Value]] = {}
        for holder in dict.fromkeys((broker, EVERY_BROKER)):
            source = SOURCE_DYNAMIC_DEFAULT if holder == EVERY_BROKER else SOURCE_DYNAMIC
            for name, text in image.broker_configs.get(holder, ()):
                found.setdefault(name, []).append({"name": name, "value": text, "source": source})
        return [
            {
                "name": name,
                "value": sources[0]["value"],
                "read_only": False,
                "config_source": sources[0]["source"],
                "is_sensitive": False,
                "config_type": _LONG,
                "synonyms": sources if request.include_synonyms else (),
                "documentation": BROKER_CONFIGS[name] if request.include_documentation else None,
            }
            for name, sources in sorted(found.items())
            if not wanted or name in wanted
        ]

    def _topic_entries(self, topic: Topic, image: ClusterImage, wanted: frozenset[str], request: Value) -> list[Value]:
        settings = self._services.settings
        overrides, server = of_topic(topic, settings.topic_values, settings.internal_values, image)
        entries = []
        for definition in shown(overrides):
            name = definition.name
            if wanted and name not in wanted:
                continue
            found = sources(definition, overrides, server)
            entries.append(
                {
                    "name": name,
                    "value": found[0].value,
                    "read_only": topic.internal,
                    "config_source": found[0].source,
                    "is_sensitive": False,
                    "synonyms": [one._asdict() for one in found] if request.include_synonyms else (),
                    "config_type": int(definition.type),
                    "documentation": definition.documentation if request.include_documentation else None,
                }
            )
        return entries

    def _default_factor(self) -> str:
        """The default that a topic would have now; "" if nobody knows. Tools create topics of their own with it, and in
        a smaller cluster the setting's would be refused."""
        image = self._services.surface.image()
        if image is None:
            return ""
        if image.feature_level < MEMBERS_LEVEL:
            return str(len(image.voters))
        return str(default_factor(image, self._services.settings.replication_factor))


def existing_topic(
    services: Services, context: RequestContext, operation: Operation, name: str
) -> tuple[Topic, ClusterImage]:
    """The topic and the image that has it, if it exists and the caller may do this. Raises ApiError 29, 17 or 3."""
    if not services.may_topic(context, operation, name):
        raise ApiError(Code.TOPIC_AUTHORIZATION_FAILED)
    error = name_error(name)
    if error is not None:
        raise ApiError(Code.INVALID_TOPIC_EXCEPTION, error)
    image = services.surface.image()
    topic = None if image is None else image.topics.get(name)
    if image is None or topic is None:
        raise ApiError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"no topic {name}")
    return topic, image


assert int(ResourceType.TOPIC) == TOPIC
