"""Topic configs as CreateTopics v5+ shows them: all 33 names, their values in force, and the source of each value."""

from muster_coordinator.api.topic_values import ServerValues, in_force, sources
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.topic_configs import shown
from muster_coordinator.wire.schema import Value


class CreatedEntries:
    """`configs` of the topics of one CreateTopics answer; equal ones are made once, as an answer may have 10,000."""

    def __init__(self, server: ServerValues) -> None:
        self._server = server
        self._made: dict[tuple[int, tuple[tuple[str, str], ...]], list[Value]] = {}

    def of(self, overrides: tuple[tuple[str, str], ...], replicas: int, image: ClusterImage) -> list[Value]:
        """The entries of a topic with these overrides and so many replicas."""
        made = self._made.get((replicas, overrides))
        if made is None:
            made = self._made[replicas, overrides] = self._make(dict(overrides), replicas, image)
        return made

    def _make(self, overrides: dict[str, str], replicas: int, image: ClusterImage) -> list[Value]:
        server = in_force(self._server, image, replicas, overrides)
        entries = []
        for definition in shown(overrides):
            first = sources(definition, overrides, server)[0]
            entries.append(
                {
                    "name": definition.name,
                    "value": first.value,
                    "read_only": False,
                    "config_source": first.source,
                    "is_sensitive": False,
                }
            )
        return entries
