"""The 33 topic configs of Kafka 4.3: names, types, defaults, bounds, and whether Muster acts on each.

Problem: tools set configs by Kafka's names and read all of them back (protocol notes 15), but not all of them have a
meaning here. Mechanism: one table. `supported` means that the value changes what Muster does; the others are stored and
shown, and have no effect. A value that would promise behaviour that Muster does not have (recompression, remote
storage) is refused with a message that says so (error 40). What it does not do: read the image, or apply anything.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from muster_coordinator.controller import limits
from muster_coordinator.controller.stream_names import STREAM_CONFIG, pattern_error
from muster_coordinator.limits import (
    BATCH_BYTES_MAX,
    BATCH_BYTES_MAX_DEFAULT,
    MIB,
    SEQUENCE_BITS_DEFAULT,
    SEQUENCE_BITS_MAX,
    SEQUENCE_BITS_MIN,
)

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1


class ConfigType(IntEnum):
    """Numbers of DescribeConfigs v3+ `configType`."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


Validator = Callable[[str], str | None]


class ConfigDef(NamedTuple):
    """One topic config."""

    name: str
    type: ConfigType
    default: str
    validator: Validator
    """Returns the text of an error, or None."""
    documentation: str
    supported: bool
    """Whether Muster acts on the value; False: it is only stored and shown."""


def integer_error(value: str, low: int, high: int) -> str | None:
    """Why a text is no whole number from `low` to `high`, or None."""
    digits = value[1:] if value[:1] in ("-", "+") else value
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        return f"{value!r} is not an integer"
    if not low <= int(value) <= high:
        return f"must be between {low} and {high}" if high < LONG_MAX else f"must be at least {low}"
    return None


def _integer(low: int, high: int) -> Validator:
    return lambda value: integer_error(value, low, high)


def _long(low: int) -> Validator:
    return _integer(low, LONG_MAX)


def _int(low: int, high: int = INT_MAX) -> Validator:
    return _integer(low, high)


def _one_of(*names: str) -> Validator:
    def check(value: str) -> str | None:
        return None if value in names else f"must be one of {', '.join(names)}"

    return check


_boolean = _one_of("true", "false")


def _ratio(value: str) -> str | None:
    try:
        number = float(value)
    except ValueError:
        return f"{value!r} is not a number"
    return None if 0.0 <= number <= 1.0 else "must be between 0 and 1"


def _any(_value: str) -> str | None:
    return None


def _cleanup_policy(value: str) -> str | None:
    policies = split_list(value)
    return None if policies and set(policies) <= {"delete", "compact"} else "must be delete, compact, or both"


def _compression_type(value: str) -> str | None:
    if value == "producer":
        return None
    if value in ("uncompressed", "zstd", "lz4", "snappy", "gzip"):
        return "only producer is supported: Muster stores batches as the producer compressed them"
    return "must be producer"


def _remote(value: str) -> str | None:
    return _boolean(value) or ("remote storage is not supported" if value == "true" else None)


def _gzip_level(value: str) -> str | None:
    return _int(-1, 9)(value) or ("must be between 1 and 9, or -1" if int(value) == 0 else None)


def _value_field(value: str) -> str | None:
    if not 1 <= len(value.encode()) <= limits.VALUE_FIELD_BYTES_MAX:
        return f"the name of a field has 1 to {limits.VALUE_FIELD_BYTES_MAX} bytes"
    return None if value.isprintable() else "the name of a field has no control characters"


_KEPT, _ACTS = False, True
_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
_LONGEST = str(LONG_MAX)
_UNTIERED = "Kept for tools; Muster has no remote storage."
_UNTHROTTLED = "Kept for tools; replication is not throttled by topic."
_DEFS = (
    ConfigDef(
        "cleanup.policy", _LIST, "delete", _cleanup_policy,
        "What happens to old segments: delete removes them, compact keeps the last value of each key; or both.", _ACTS,
    ),
    ConfigDef("compression.gzip.level", _INT, "-1", _gzip_level, "Kept for tools; nothing is recompressed.", _KEPT),
    ConfigDef("compression.lz4.level", _INT, "9", _int(1, 17), "Kept for tools; nothing is recompressed.", _KEPT),
    ConfigDef(
        "compression.type", _STRING, "producer", _compression_type,
        "Batches stay as the producer compressed them; nothing but producer is supported.", _ACTS,
    ),
    ConfigDef(
        "compression.zstd.level", _INT, "3", _int(-131072, 22), "Kept for tools; nothing is recompressed.", _KEPT
    ),
    ConfigDef(
        "delete.retention.ms", _LONG, "86400000", _long(0),
        "How long a tombstone stays after the first cleaning that meets it.", _ACTS,
    ),
    ConfigDef(
        "file.delete.delay.ms", _LONG, "60000", _long(0),
        "Kept for tools; files are deleted after their last reader.", _KEPT,
    ),
    ConfigDef(
        "flush.messages", _LONG, _LONGEST, _long(1), "Kept for tools; every batch is durable on a quorum first.", _KEPT
    ),
    ConfigDef(
        "flush.ms", _LONG, _LONGEST, _long(0), "Kept for tools; every batch is durable on a quorum first.", _KEPT
    ),
    ConfigDef("follower.replication.throttled.replicas", _LIST, "", _any, _UNTHROTTLED, _KEPT),
    ConfigDef(
        "index.interval.bytes", _INT, "4096", _int(0), "Kept for tools; the index interval is fixed.", _KEPT
    ),
    ConfigDef("leader.replication.throttled.replicas", _LIST, "", _any, _UNTHROTTLED, _KEPT),
    ConfigDef("local.retention.bytes", _LONG, "-2", _long(-2), _UNTIERED, _KEPT),
    ConfigDef("local.retention.ms", _LONG, "-2", _long(-2), _UNTIERED, _KEPT),
    ConfigDef(
        "max.compaction.lag.ms", _LONG, _LONGEST, _long(1),
        "A record that was never cleaned for this time makes its partition due.", _ACTS,
    ),
    ConfigDef(
        "max.message.bytes", _INT, str(BATCH_BYTES_MAX_DEFAULT), _int(0, BATCH_BYTES_MAX),
        "Largest record batch as sent, compressed or not, in bytes.", _ACTS,
    ),
    ConfigDef(
        "message.timestamp.after.max.ms", _LONG, "3600000", _long(0),
        "How far a CreateTime timestamp may be ahead of the leader's clock.", _ACTS,
    ),
    ConfigDef(
        "message.timestamp.before.max.ms", _LONG, _LONGEST, _long(0),
        "How far a CreateTime timestamp may be behind the leader's clock.", _ACTS,
    ),
    ConfigDef(
        "message.timestamp.type", _STRING, "CreateTime", _one_of("CreateTime", "LogAppendTime"),
        "Which clock sets a record's timestamp: the producer's or the leader's.", _ACTS,
    ),
    ConfigDef(
        "min.cleanable.dirty.ratio", _DOUBLE, "0.5", _ratio,
        "A partition is due to be cleaned when more of its bytes than this was never cleaned.", _ACTS,
    ),
    ConfigDef(
        "min.compaction.lag.ms", _LONG, "0", _long(0),
        "A segment with a record younger than this is not cleaned.", _ACTS,
    ),
    ConfigDef(
        "min.insync.replicas", _INT, "1", _int(1),
        "Replicas that hold a batch before it is acknowledged. A Raft majority always does; more is refused.", _ACTS,
    ),
    ConfigDef("preallocate", _BOOLEAN, "false", _boolean, "Kept for tools; files are not preallocated.", _KEPT),
    ConfigDef("remote.log.copy.disable", _BOOLEAN, "false", _boolean, _UNTIERED, _KEPT),
    ConfigDef("remote.log.delete.on.disable", _BOOLEAN, "false", _boolean, _UNTIERED, _KEPT),
    ConfigDef("remote.storage.enable", _BOOLEAN, "false", _remote, _UNTIERED, _ACTS),
    ConfigDef(
        "retention.bytes", _LONG, "-1", _long(-1),
        "The oldest segments are deleted while the partition is larger than this; -1: no limit.", _ACTS,
    ),
    ConfigDef(
        "retention.ms", _LONG, "604800000", _long(-1),
        "A segment is deleted when its newest record is older than this; -1: never.", _ACTS,
    ),
    ConfigDef(
        "segment.bytes", _INT, "1073741824", _int(MIB), "Size at which a segment file is closed.", _ACTS
    ),
    ConfigDef(
        "segment.index.bytes", _INT, "10485760", _int(4), "Kept for tools; the index is as large as needed.", _KEPT
    ),
    ConfigDef("segment.jitter.ms", _LONG, "0", _long(0), "Kept for tools; segments roll by record time.", _KEPT),
    ConfigDef(
        "segment.ms", _LONG, "604800000", _long(1),
        "Span of record time after which a segment file is closed.", _ACTS,
    ),
    ConfigDef(
        "unclean.leader.election.enable", _BOOLEAN, "false", _boolean,
        "Kept for tools; Raft never elects a leader that lacks acknowledged records.", _KEPT,
    ),
)  # fmt: skip

CONFIGS: dict[str, ConfigDef] = {definition.name: definition for definition in _DEFS}
"""By name, in alphabetical order."""
DEFAULTS: dict[str, str] = {definition.name: definition.default for definition in CONFIGS.values()}

assert len(CONFIGS) == 33
assert list(CONFIGS) == sorted(CONFIGS)


STREAM = ConfigDef(
    STREAM_CONFIG, _STRING, "", pattern_error,
    "The Redis Stream of each partition, of {topic} and {partition}: one that is there already, and stays.", _ACTS,
)  # fmt: skip
SEQUENCE_BITS = ConfigDef(
    "redis.sequence.bits", _INT, str(SEQUENCE_BITS_DEFAULT), _int(SEQUENCE_BITS_MIN, SEQUENCE_BITS_MAX),
    "Bits of an offset that are the sequence of an entry's id.", _ACTS,
)  # fmt: skip
VALUE_FIELD = ConfigDef(
    "redis.value.field", _STRING, "", _value_field,
    "The field that is a record's value, of entries that others have written; without it they are JSON.", _ACTS,
)  # fmt: skip
STORE = ConfigDef(
    "topic.store", _STRING, "embedded", _one_of("embedded", "redis"), "Where the topic's records are.", _ACTS
)
OWN: dict[str, ConfigDef] = {one.name: one for one in (SEQUENCE_BITS, STREAM, VALUE_FIELD, STORE)}
"""Our own: only topics that have one show it, so that tools find Kafka's configs elsewhere. A topic has what it was
made with for good, since what was read at an offset must be read there again."""
OF_REDIS = frozenset(OWN) - {STORE.name}
"""Those that only topics in Redis have."""
MAPPED_DEFAULTS: Mapping[str, str] = MappingProxyType({"retention.bytes": "-1", "retention.ms": "-1"})
"""What a topic with `redis.stream` has that does not say otherwise itself, whatever the server's file says: nobody has
asked Muster to remove entries of somebody else's stream."""


def shown(overrides: Mapping[str, str]) -> tuple[ConfigDef, ...]:
    """The configs that tools are shown of a topic with these overrides."""
    return (*CONFIGS.values(), *(definition for name, definition in OWN.items() if name in overrides))


def validate(name: str, value: str) -> str | None:
    """Why `value` is not valid as the override `name` (error 40), or None."""
    definition = CONFIGS.get(name) or OWN.get(name)
    if definition is None:
        return f"unknown topic config {name}"
    if len(value) > limits.CONFIG_VALUE_CHARS_MAX:
        return f"{name}: a value may have at most {limits.CONFIG_VALUE_CHARS_MAX} characters"
    error = definition.validator(value)
    return None if error is None else f"{name}: {error}"


def validate_all(
    overrides: Mapping[str, str], *, voters: int, may_compact: bool, server: Mapping[str, str] = MappingProxyType({})
) -> str | None:
    """Why a topic cannot have these overrides together, with this many voters per partition; or None. `may_compact`: is
    the feature level one of which every replica knows cleaned segments? `server`: what is in force without them."""
    for name, text in overrides.items():
        error = validate(name, text)
        if error is not None:
            return error
    if "compact" in items(overrides, "cleanup.policy") and not may_compact:
        return "cleanup.policy: compact is possible once all replicas run release 0.2.0 and the feature level is 3"
    values = {**server, **overrides}
    compacts = may_compact and "compact" in items(values, "cleanup.policy")
    if compacts and integer(values, "min.compaction.lag.ms") > integer(values, "max.compaction.lag.ms"):
        return "min.compaction.lag.ms: must not be above max.compaction.lag.ms"
    majority = voters // 2 + 1
    if integer(overrides, "min.insync.replicas") > majority:
        return f"min.insync.replicas: a batch is acknowledged by a majority, which is {majority} of {voters} replicas"
    return None


def value(overrides: Mapping[str, str], name: str) -> str:
    """The value in force: the override, else the default. KeyError for an unknown name."""
    default = DEFAULTS[name]
    return overrides.get(name, default)


def integer(overrides: Mapping[str, str], name: str) -> int:
    """The value in force of an INT or LONG config."""
    return int(value(overrides, name))


def boolean(overrides: Mapping[str, str], name: str) -> bool:
    """The value in force of a BOOLEAN config."""
    return value(overrides, name) == "true"


def number(overrides: Mapping[str, str], name: str) -> float:
    """The value in force of a DOUBLE config."""
    return float(value(overrides, name))


def items(overrides: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The value in force of a LIST config."""
    return split_list(value(overrides, name))


def effective(overrides: Mapping[str, str]) -> dict[str, str]:
    """All 33 values in force."""
    return {**DEFAULTS, **overrides}


def split_list(text: str) -> tuple[str, ...]:
    """The items of a LIST value: comma-separated, without blanks around them; none for an empty text."""
    return tuple(item for item in (part.strip() for part in text.split(",")) if item)
