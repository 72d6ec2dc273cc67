"""Topic configs as CreateTopics v5+ and DescribeConfigs show them: all 33 names, their values in force, and the source
of each value."""

from collections.abc import Mapping

from muster_coordinator.controller.topic_configs import CONFIGS, ConfigDef
from muster_coordinator.wire.schema import Value

SOURCE_TOPIC, SOURCE_DYNAMIC_DEFAULT, SOURCE_STATIC, SOURCE_DEFAULT = 1, 3, 4, 5
"""ConfigSource of DescribeConfigs."""


def source_and_value(definition: ConfigDef, overrides: Mapping[str, str]) -> tuple[int, str]:
    """(source of the topic's value, value)."""
    value = overrides.get(definition.name)
    return (SOURCE_DEFAULT, definition.default) if value is None else (SOURCE_TOPIC, value)


def created_entries(overrides: Mapping[str, str]) -> list[Value]:
    """`configs` of a CreateTopics answer."""
    entries = []
    for name, definition in CONFIGS.items():
        source, value = source_and_value(definition, overrides)
        entries.append(
            {"name": name, "value": value, "read_only": False, "config_source": source, "is_sensitive": False}
        )
    return entries
