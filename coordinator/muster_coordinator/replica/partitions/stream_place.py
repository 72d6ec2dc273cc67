"""Which Redis Stream a partition is, and what its entries mean, by the topic's configs.

Problem: whoever owns a partition's log, shows groups beside it, or takes groups over from it must mean the same stream
and the same offsets, though a topic may have names and bits of its own (ADR 95). Mechanism: the configs that say it are
a topic's for good, so they are asked here and nowhere else. What this does not do: look into Redis, or know whether a
topic is there.
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster_coordinator.controller.stream_names import STREAM_CONFIG, StreamNames
from muster_coordinator.controller.topic_configs import SEQUENCE_BITS, VALUE_FIELD
from muster_coordinator.redis_streams.entry_ids import Offsets
from muster_coordinator.redis_streams.keys import keys_beside, keys_of


class StreamPlace(NamedTuple):
    """See the module."""

    keys: tuple[str, str]
    """The stream, and the hash beside it."""
    offsets: Offsets
    value_field: bytes | None = None
    """Of entries that others have written: the field that is a record's value."""
    keep: bool = False
    """The stream has its name by `redis.stream`: it is somebody else's, and stays when the topic is deleted."""

    @property
    def stream(self) -> str:
        return self.keys[0]

    @classmethod
    def of(cls, prefix: str, topic: str, configs: Mapping[str, str], partition: int) -> "StreamPlace":
        """Of a topic in Redis. `configs` may be all that tools are told; ValueError if they are none of a topic."""
        pattern, field = configs.get(STREAM_CONFIG), configs.get(VALUE_FIELD.name)
        if pattern is None:
            keys = keys_of(prefix, topic, partition)
        else:
            keys = keys_beside(prefix, StreamNames.parse(pattern, topic).of(partition))
        offsets = Offsets.of_bits(int(configs.get(SEQUENCE_BITS.name, SEQUENCE_BITS.default)))
        return cls(keys, offsets, None if field is None else field.encode(), pattern is not None)
