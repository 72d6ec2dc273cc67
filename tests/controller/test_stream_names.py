"""Patterns of `redis.stream`: which streams they name, whether two of them meet, and that the log never lets them."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from muster_coordinator.controller.commands import FinalizeFeatures
from muster_coordinator.controller.image import MEMBERS_LEVEL, STREAM_CONFIGS_LEVEL
from muster_coordinator.controller.limits import STREAM_NAME_BYTES_MAX
from muster_coordinator.controller.stream_names import STREAM_CONFIG, StreamNames, length_error, pattern_error
from muster_coordinator.controller.topic_configs import OF_REDIS
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.errors import Code
from muster_coordinator.limits import RAFT_GROUPS_MAX

from tests.controller.cluster_commands import VOTERS, Log, create, form, register

NUMBERS = range(1_000)
"""Where two of `PIECES` meet at all, they do where one of both numbers has three digits at most."""
PIECES = st.text("019:a", max_size=2)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("korvet:{topic}:{partition}", ["korvet:orders:0", "korvet:orders:1"]),
        ("{partition}", ["0", "1"]),
        ("{{{topic}}}:{partition}", ["{orders}:0", "{orders}:1"]),
        ("{{{topic}:{partition}}}", ["{orders:0}", "{orders:1}"]),
        ("{{topic}}-{partition}", ["{topic}-0", "{topic}-1"]),
        ("{topic}{topic}", ["ordersorders", "ordersorders"]),
        ("plain name", ["plain name", "plain name"]),
        ("dépôt:{partition}", ["dépôt:0", "dépôt:1"]),
    ],
)
def test_a_pattern_names_the_stream_of_each_partition(pattern: str, expected: list[str]) -> None:
    assert pattern_error(pattern) is None
    names = StreamNames.parse(pattern, "orders")
    assert [names.of(partition) for partition in (0, 1)] == expected


@pytest.mark.parametrize(
    "pattern",
    [
        "", "{", "}", "a{b", "a}b", "{Topic}", "{partition }", "{}", "{{}}", "}}{{", "{{a", "a}}", "{{a}}{{b}}",
        "{{{{a}}}}", "{{a}b}}", "{partition}{partition}", "{partition}:{topic}:{partition}", "a\nb", "a\0", "a\x7f",
        "a\x85b", "a\u2028b",
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_refused_with_words(pattern: str) -> None:
    error = pattern_error(pattern)
    assert error
    assert "braces" in error or "at least one character" in error or "control characters" in error


def test_a_name_is_as_long_as_it_may_be_with_the_greatest_number_and_in_bytes() -> None:
    digits = len(str(RAFT_GROUPS_MAX))
    fits = "é" * ((STREAM_NAME_BYTES_MAX - digits) // 2)
    assert length_error(StreamNames.parse(fits + "{partition}", "t")) is None
    assert length_error(StreamNames.parse(fits + "{partition}a", "t")) is not None
    assert length_error(StreamNames.parse("{topic}", "t" * STREAM_NAME_BYTES_MAX)) is None
    assert length_error(StreamNames.parse("{topic}", "t" * (STREAM_NAME_BYTES_MAX + 1))) is not None


def streams(names: StreamNames) -> set[str]:
    return {names.of(number) for number in NUMBERS}


def some_is_of(names: StreamNames, other: StreamNames) -> bool:
    number = "(0|[1-9][0-9]*)" if other.numbered else ""
    every = re.compile(re.escape(other.head) + number + re.escape(other.tail))
    return any(every.fullmatch(name) for name in streams(names))


def of(head: str, tail: str | None) -> StreamNames:
    return StreamNames(head, tail or "", tail is not None)


@given(PIECES, st.none() | PIECES, PIECES, st.none() | PIECES)
@example("a", ":5", "a3:", "")  # a3:5
@example("a", "", "a0", "")  # nothing: a number does not begin with 0
@example("a", "1", "a0", "")  # a01
@example("a", "", "a", "0")
@example("", "", "7", None)
@example("", "", "07", None)
@example("a1", "", "a", "1")
def test_two_patterns_meet_if_and_only_if_they_name_one_stream(
    head: str, tail: str | None, other_head: str, other_tail: str | None
) -> None:
    """By trying out numbers on either side."""
    one, other = of(head, tail), of(other_head, other_tail)
    found = some_is_of(one, other) or some_is_of(other, one)
    assert one.meets(other) == other.meets(one) == found


@given(PIECES, st.none() | PIECES, st.text("019a", max_size=2))
@example("", ":{", "7")
@example("a", "7:{", "a")
@example("", ":{", "07")
def test_a_beginning_is_foretold(head: str, tail: str | None, prefix: str) -> None:
    names, start = of(head, tail), f"{prefix}:"
    assert names.may_begin_with(start) == any(name.startswith(start) for name in streams(names))


def at_level(level: int) -> Log:
    return Log(form(feature_level=level), *(register(voter, feature_max=STREAM_CONFIGS_LEVEL) for voter in VOTERS))


def mapped(log: Log, name: str, pattern: str, n: int) -> tuple[Code, str]:
    command = create(name, n=n, configs=((STREAM_CONFIG, pattern), ("topic.store", "redis")))
    result = log.apply(command)
    return Code(result.error), result.message


def test_of_two_topics_that_brokers_have_proposed_for_one_stream_the_log_takes_the_first() -> None:
    log = at_level(STREAM_CONFIGS_LEVEL)
    assert mapped(log, "orders", "korvet:{topic}:{partition}", 1)[0] == Code.NONE
    code, said = mapped(log, "again", "korvet:orders:{partition}", 2)
    assert (code, "orders" in said) == (Code.INVALID_CONFIG, True)
    assert mapped(log, "one", "korvet:orders:7", 3)[0] == Code.INVALID_CONFIG, "partitions may be added"
    assert mapped(log, "other", "korvet:{topic}:{partition}", 4)[0] == Code.NONE
    assert mapped(log, "broken", "{", 5)[0] == Code.INVALID_CONFIG
    assert sorted(log.cluster.topics)[1:] == ["orders", "other"]


@pytest.mark.parametrize("name", sorted(OF_REDIS))
def test_below_the_level_nothing_is_proposed_that_a_replica_of_the_release_before_could_not_apply(name: str) -> None:
    """What came into the log all the same is refused by all who can read it; who cannot, stops there."""
    command = create("a", n=1, configs=((name, "12"),))
    log = at_level(MEMBERS_LEVEL)
    early = level_refusal(log.cluster, command)
    assert early is not None
    assert (early.error, "needs feature level 4; the cluster has 3" in early.message) == (
        Code.UNSUPPORTED_VERSION,
        True,
    )
    assert log.apply(command) == early
    assert level_refusal(log.cluster, create("a", configs=(("topic.store", "redis"),))) is None
    assert log.apply(FinalizeFeatures(feature_level=STREAM_CONFIGS_LEVEL)).error == Code.NONE
    assert level_refusal(log.cluster, command) is None
    assert log.apply(command).error == Code.NONE
