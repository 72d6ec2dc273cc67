"""What holds for a topic's log on a replica: the server's values, and above them the topic's own.

Problem: a batch, a roll and the cleaner must go by one answer, although half of it stands in this replica's file and
half in the controller's log, and although compaction by default begins only when every replica knows it. Mechanism:
each question takes the topic and the feature level and reads nothing else. Pure. What this does not do: judge a config
(`controller.topic_configs`), or hold the answer back until a leader has it in its log (`group_manager`).
"""

from collections.abc import Mapping

from muster_coordinator.controller.image import MEMBERS_LEVEL, OFFSETS_TOPIC, Topic
from muster_coordinator.controller.stream_names import STREAM_CONFIG
from muster_coordinator.controller.topic_configs import DEFAULTS, MAPPED_DEFAULTS
from muster_coordinator.limits import SEGMENT_BYTES, SEGMENT_MS
from muster_coordinator.replica.settings import NodeSettings


class ConfigsInForce:
    """`level`: the feature level; 0 while no image is known."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._server = dict(settings.topic_configs)
        self._unusual = {name: value for name, value in settings.topic_configs if value != DEFAULTS[name]}

    def default_policy(self, level: int) -> str:
        """`cleanup.policy` of clients' topics that do not say it themselves."""
        return _known(self._server, level).get("cleanup.policy", "delete")

    def of(self, topic: Topic, level: int) -> Mapping[str, str]:
        """Those that differ from Kafka's defaults: mostly none, so that a batch costs no parsing of them."""
        own = dict(topic.configs)
        not_ours = MAPPED_DEFAULTS if STREAM_CONFIG in own else {}
        return {**_known(self._unusual, level), **not_ours, **own}

    def roll(self, topic: Topic, level: int) -> tuple[int, int]:
        """(segment.bytes, segment.ms)."""
        if topic.internal:
            of_offsets, settings = topic.name == OFFSETS_TOPIC, self._settings
            return settings.offsets_segment_bytes if of_offsets else settings.transactions_segment_bytes, SEGMENT_MS
        configs = _known(self._server, level) | dict(topic.configs)
        roll_ms = int(configs.get("segment.ms", SEGMENT_MS))
        if "compact" in configs.get("cleanup.policy", ""):
            # What is in the active segment is not cleaned (KIP-354).
            roll_ms = min(roll_ms, int(configs.get("max.compaction.lag.ms", roll_ms)))
        return int(configs.get("segment.bytes", SEGMENT_BYTES)), roll_ms


def _known(server: Mapping[str, str], level: int) -> dict[str, str]:
    """The server's values of which every replica knows: compaction by default begins as a topic's own does."""
    return {name: value for name, value in server.items() if name != "cleanup.policy" or level >= MEMBERS_LEVEL}
