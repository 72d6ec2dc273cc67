"""Topic configs as CreateTopics v5+ and DescribeConfigs show them: all 33 names, their values in force, and the source
of each value."""

from collections.abc import Mapping

from muster_coordinator.controller.topic_configs import CONFIGS, ConfigDef
from muster_coordinator.wire.schema import Value

SOURCE_TOPIC, SOURCE_DYNAMIC, SOURCE_DYNAMIC_DEFAULT, SOURCE_STATIC, SOURCE_DEFAULT = 1, 2, 3, 4, 5
"""ConfigSource of DescribeConfigs."""


def source_and_value(definition: ConfigDef, overrides: Mapping[str, str]) -> tuple[int, str]:
    """(source of the topic's value, value)."""
    value = overrides.get(definition.name)
    return (SOURCE_DEFAULT, definition.default) if value is None else (SOURCE_TOPIC, value)


class CreatedEntries:
    """`configs` of the topics of one CreateTopics answer; equal ones are made once, as an answer may have 10,000."""

    def __init__(self) -> None:
        self._made: dict[tuple[tuple[str, str], ...], list[Value]] = {}

    def of(self, overrides: tuple[tuple[str, str], ...]) -> list[Value]:
        """The entries of a topic with these overrides."""
        made = self._made.get(overrides)
        if made is None:
            made = self._made[overrides] = _created_entries(dict(overrides))
        return made


def _created_entries(overrides: Mapping[str, str]) -> list[Value]:
    entries = []
    for name, definition in CONFIGS.items():
        source, value = source_and_value(definition, overrides)
        entries.append(
            {"name": name, "value": value, "read_only": False, "config_source": source, "is_sensitive": False}
        )
    return entries
