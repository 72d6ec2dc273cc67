"""What of a topic's config is in force, and where it comes from: the topic, this server's file, or a default.

Problem: a tool that reads Kafka's default where the server acts otherwise plans with a wrong number. Mechanism: the
server's values of topic configs are handed in with the key of the file that each comes from (`node_settings`); what no
setting changes, since Raft and the storage are as they are, stands here. Kafka names a value's sources in the order in
which they would be in force; so is it here. What it does not do: decide; `replica` reads the same settings itself.
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster_coordinator.controller.image import MEMBERS_LEVEL, ClusterImage, Topic
from muster_coordinator.controller.stream_names import STREAM_CONFIG
from muster_coordinator.controller.topic_configs import CONFIGS, MAPPED_DEFAULTS, ConfigDef

SOURCE_TOPIC, SOURCE_DYNAMIC, SOURCE_DYNAMIC_DEFAULT, SOURCE_STATIC, SOURCE_DEFAULT = 1, 2, 3, 4, 5
"""ConfigSource of DescribeConfigs."""

_POLICY, _MIN_INSYNC = "cleanup.policy", "min.insync.replicas"
_BUILT_IN: Mapping[str, str] = {
    "file.delete.delay.ms": "0",
    "flush.messages": "1",
}
"""Every batch is durable on a quorum before it is acknowledged, and a file goes with its last reader."""


class ServerValue(NamedTuple):
    """A topic config as the server's settings have it."""

    value: str
    key: str
    """Of the file."""
    in_file: bool
    """Somebody has set it; else it is the key's default."""


ServerValues = Mapping[str, ServerValue]


def values_of(server: ServerValues) -> dict[str, str]:
    """Without where they come from."""
    return {name: one.value for name, one in server.items()}


class Source(NamedTuple):
    """One of the places that have a value."""

    name: str
    value: str
    source: int


def sources(definition: ConfigDef, overrides: Mapping[str, str], server: ServerValues) -> list[Source]:
    """The value in force, and behind it those that would be without it. Of a topic that has `overrides`."""
    found = []
    own = overrides.get(definition.name)
    if own is not None:
        found.append(Source(definition.name, own, SOURCE_TOPIC))
    known = server.get(definition.name)
    if known is not None and known.in_file:
        found.append(Source(known.key, known.value, SOURCE_STATIC))
    default = definition.default if known is None or known.in_file else known.value
    found.append(Source(definition.name, _BUILT_IN.get(definition.name, default), SOURCE_DEFAULT))
    return found


def in_force(server: ServerValues, image: ClusterImage, replicas: int, overrides: Mapping[str, str]) -> ServerValues:
    """The server's values for topics with so many replicas and these overrides: a batch is acknowledged by a majority,
    whatever less is asked for, nothing is compacted by default before all replicas know it, and of somebody else's
    stream nothing is removed that the topic itself does not say."""
    if STREAM_CONFIG in overrides:
        mapped = {name: ServerValue(value, name, in_file=False) for name, value in MAPPED_DEFAULTS.items()}
        server = {**server, **mapped}
    majority = ServerValue(str(replicas // 2 + 1), _MIN_INSYNC, in_file=False)
    asked = server.get(_MIN_INSYNC, majority)
    found = {**server, _MIN_INSYNC: majority if int(asked.value) <= int(majority.value) else asked}
    if image.feature_level < MEMBERS_LEVEL:
        found[_POLICY] = ServerValue(CONFIGS[_POLICY].default, _POLICY, in_file=False)
    return found


def of_topic(
    topic: Topic, server: ServerValues, internal: Mapping[str, ServerValues], image: ClusterImage
) -> tuple[Mapping[str, str], ServerValues]:
    """(the topic's own values, the server's). The configs that an internal topic was made with are not looked at where
    the settings say otherwise."""
    overrides = dict(topic.configs)
    values = in_force(server, image, len(topic.partitions[0].voters) if topic.partitions else 1, overrides)
    for name, known in internal.get(topic.name, {}).items():
        fits = known
        if name == _POLICY and image.feature_level < MEMBERS_LEVEL:
            fits = ServerValue("delete", known.key, in_file=False)
        values = {**values, name: fits}
        if overrides.get(name) != fits.value:
            overrides.pop(name, None)
    return overrides, values
