"""Which Redis Streams a topic with the config `redis.stream` is, and whether two topics would be one stream.

Problem: streams that are there already have names of their own, and no two topics may ever be one stream. Mechanism: a
pattern, which is text with `{topic}`, with `{partition}` once at most, and with doubled braces for a hash tag
(`{{...}}`, once at most), by which Redis Cluster chooses a slot. Whether two patterns have a stream in common is found
in their texts, for any number of partitions, so that partitions can be added without another look. Both are rules of
feature level 4, since the log is applied by them. Pure. What this does not do: look into Redis, or name what is kept
beside a stream (`redis_streams.keys`).
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from muster_coordinator.controller.image import Topic
from muster_coordinator.controller.limits import STREAM_NAME_BYTES_MAX
from muster_coordinator.limits import RAFT_GROUPS_MAX

STREAM_CONFIG = "redis.stream"
"""The topic config. It is given when a topic is made, and never changed."""
_TOKENS = re.compile(r"\{topic\}|\{partition\}|\{\{|\}\}|[^{}]+")
_DIGITS = re.compile(r"[0-9]*")
_NUMBER = re.compile(r"0|[1-9][0-9]*")
_GRAMMAR = (
    "braces are for {topic}, for {partition} once at most, and doubled, once at most, for a hash tag that is not empty"
)


class StreamNames(NamedTuple):
    """The streams of one topic: `head`, the partition's number, `tail`; or `head` alone."""

    head: str
    tail: str
    numbered: bool

    @classmethod
    def parse(cls, pattern: str, topic: str) -> "StreamNames":
        """ValueError if it is no pattern."""
        tokens = _TOKENS.findall(pattern)
        if not pattern or "".join(tokens) != pattern:
            raise ValueError(_GRAMMAR if pattern else "a stream has a name of at least one character")
        numbers, opened, closed = (tokens.count(one) for one in ("{partition}", "{{", "}}"))
        tagged = opened == closed == 1 and tokens.index("{{") + 1 < tokens.index("}}")
        if numbers > 1 or not (tagged or opened == closed == 0):
            raise ValueError(_GRAMMAR)
        plain = {"{topic}": topic, "{{": "{", "}}": "}"}
        at = tokens.index("{partition}") if numbers else len(tokens)
        head, tail = ("".join(plain.get(one, one) for one in part) for part in (tokens[:at], tokens[at + 1 :]))
        return cls(head, tail, numbers == 1)

    def of(self, partition: int) -> str:
        """The stream of a partition."""
        return f"{self.head}{partition}{self.tail}" if self.numbered else self.head

    def meets(self, other: "StreamNames") -> bool:
        """Whether some stream is one of both, whatever the number of partitions."""
        if not self.numbered:
            return other._has(self.head)
        if not other.numbered:
            return self._has(other.head)
        short, long = sorted((self, other), key=lambda names: len(names.head))
        if not long.head.startswith(short.head):
            return False
        return _equal_numbers(long.head[len(short.head) :], short.tail, long.tail)

    def _has(self, name: str) -> bool:
        if not self.numbered:
            return name == self.head
        begins_and_ends = name.startswith(self.head) and name.endswith(self.tail)
        return begins_and_ends and _NUMBER.fullmatch(name, len(self.head), len(name) - len(self.tail)) is not None

    def may_begin_with(self, start: str) -> bool:
        """Whether the stream of some partition does. `start` does not end with a digit."""
        if self.head.startswith(start):
            return True
        if not self.numbered or not start.startswith(self.head):
            return False
        rest = start[len(self.head) :]
        ends = range(1, len(rest))
        return any(_NUMBER.fullmatch(rest, 0, end) and self.tail.startswith(rest[end:]) for end in ends)


def _equal_numbers(more: str, short_tail: str, long_tail: str) -> bool:
    """Whether there are numbers a and b for which `a + short_tail` is `more + b + long_tail`."""
    if long_tail.endswith(short_tail):
        rest = long_tail[: len(long_tail) - len(short_tail)]  # a is more + b + rest
        return _DIGITS.fullmatch(more + rest) is not None and not more.startswith("0")
    if not short_tail.endswith(long_tail):
        return False
    rest = short_tail[: len(short_tail) - len(long_tail)]  # a + rest is more + b
    if _DIGITS.fullmatch(more + rest) is not None and not more.startswith("0"):
        return True
    for end in range(1, len(more) + 1):  # or a is only the beginning of more
        between = more[end:]
        numbers = _NUMBER.fullmatch(more, 0, end) and _NUMBER.fullmatch(rest, len(between))
        if numbers and rest.startswith(between):
            return True
    return False


def pattern_error(pattern: str) -> str | None:
    """Why no topic can have this pattern; None: some topic can."""
    try:
        StreamNames.parse(pattern, "t")
    except ValueError as error:
        return str(error)
    return None if pattern.isprintable() else "the name of a stream has no control characters"


def length_error(names: StreamNames) -> str | None:
    """Why a stream of these would have too long a name, with as many partitions as there may be; or None."""
    size = len(names.of(RAFT_GROUPS_MAX).encode())
    return f"a stream's name has {STREAM_NAME_BYTES_MAX} bytes at most" if size > STREAM_NAME_BYTES_MAX else None


def names_of(topic: Topic) -> StreamNames | None:
    """None: its streams have names of Muster's own. A topic has the config only if apply has taken it for a pattern."""
    pattern = next((value for name, value in topic.configs if name == STREAM_CONFIG), None)
    return None if pattern is None else StreamNames.parse(pattern, topic.name)


def with_same_stream(names: StreamNames, topics: Iterable[Topic]) -> str | None:
    """The topic that has one of these streams, or could have; None: there is none. O(topics)."""
    for topic in topics:
        others = names_of(topic)
        if others is not None and names.meets(others):
            return topic.name
    return None
