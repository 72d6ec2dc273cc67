"""Answers of Redis in both shapes, and what is none of them."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.redis_streams.answers import ANSWERS, first_entries, of_script, pairs
from muster_coordinator.redis_streams.entry_ids import EntryId
from muster_coordinator.redis_streams.sentinels import said_primary
from muster_coordinator.redis_streams.server import SCRIPTS, Script
from muster_coordinator.redis_streams.slots import SlotRange, ranges_of

ODD = (
    st.none() | st.integers() | st.binary(max_size=3) | st.text(max_size=3) | st.floats(allow_nan=False) | st.booleans()
)
ANYTHING = st.recursive(
    ODD,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.binary(max_size=3) | st.integers(), inner),
    max_leaves=8,
)


def flat(told: dict[bytes, Any]) -> list[Any]:
    return [part for pair in told.items() for part in pair]


@given(st.dictionaries(st.binary(max_size=4), st.integers() | st.binary(max_size=4)))
def test_names_and_values_are_the_same_by_both(told: dict[bytes, Any]) -> None:
    assert list(pairs(told)) == list(pairs(flat(told))) == list(told.items())


@given(ANYTHING)
def test_whatever_is_answered_is_read_or_a_value_error(answer: Any) -> None:
    for read in (pairs, first_entries, said_primary, lambda it: ranges_of(it, ("h", 1))):
        try:
            list(read(answer))
        except ValueError:
            continue
    for script in SCRIPTS:
        of_script(script.name, answer)


def test_the_first_entries_of_streams() -> None:
    entries = [[b"5-1", [b"k", b"v"]], [b"6-0", []]]
    expected = [("s", EntryId(5, 1))]
    assert first_entries([[b"s", entries]]) == first_entries({b"s": entries}) == expected
    assert first_entries(None) == []


def test_a_sentinel_and_a_node_by_both() -> None:
    said: dict[bytes, Any] = {b"ip": b"10.0.0.1", b"port": b"6379", b"config-epoch": b"3", b"flags": b"master"}
    assert said_primary(said) == said_primary(flat(said))
    beside: dict[bytes, Any] = {b"ip": b"10.0.0.2"}
    for told in (beside, flat(beside)):
        assert ranges_of([[0, 5, [b"?", 7_000, b"id", told]]], ("h", 1)) == [SlotRange(0, 5, ("10.0.0.2", 7_000))]


@pytest.mark.parametrize(
    ("script", "answer", "is_one"),
    [
        ("claim", [b"OK", b""], True),
        ("claim", [b"OK"], False),
        ("claim", {b"OK": 1}, False),
        ("claim", b"OK", False),
        ("claim", [b"CLUSTER", b"\xff"], True),
        ("claim", [b"\xff", b""], False),
        ("append", [b"OK", b"5-1"], True),
        ("append", [b"OK", b"5"], False),
        ("append", [b"OK", b"%d-1" % 2**64], False),
        ("append", [b"SEQUENCE", b"7"], True),
        ("append", [b"SEQUENCE", 7], False),
        ("append", [b"LATER", b"7"], False),
        ("behind", [b"OK", 3, b"", 3, b"", b""], True),
        ("behind", [b"OK", 3, b"5-1", 9, b"1-1", b"7-1"], True),
        ("behind", [b"OK", -1, b"", 3, b"", b""], False),
        ("behind", [b"OK", 3, b"x", 3, b"", b""], False),
        ("mirrored", [b"OK", b"0", [b"g:a", b"1 2 3"]], True),
        ("mirrored", [b"OK", b"0", [b"g:a"]], False),
        ("mirrored", [b"OK", b"0", [b"g:a", 1]], False),
        ("prove", [b"OK", b""], True),
        ("prove", [b"OK", b"3 7 5-1"], True),
        ("prove", [b"OK", b"3 7"], False),
        ("prove", [b"OK", b"3 7 %d-1" % 2**64], False),
        ("read", [b"OK", b"0-0", b"", b"", b"", b"", []], True),
        ("read", [b"OK", b"0-0", b"", b"", b"3 7 5-1", b"4-1", []], True),
        ("read", [b"OK", b"0-0", b"", b"", b"3 7", b"4-1", []], False),
        ("read", [b"OK", b"0-0", b"", b"", None, b"", []], False),
        ("read", [b"OK", b"", b"", b"", b"", b"", []], False),
        ("read", [b"OK", b"0-0", b"", b"", b"", b"", None], False),
        ("read", [b"OK", b"0-0"], False),
    ],
)
def test_what_a_script_returns(script: str, answer: Any, is_one: bool) -> None:
    assert of_script(script, answer) is is_one


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_each_word_that_a_script_says_is_known(script: Script) -> None:
    """Read from its text; the shapes of what follows are held to a real Redis by `world_server`."""
    code = re.sub(r"--.*", "", script.text)
    words = {word.encode() for word in re.findall(r"return \{(?:\w+ and '[A-Z]+' or )?'([A-Z]+)',", code)}
    words |= {word.encode() for word in re.findall(r"return (?:\{\w+|.*?) and \{?'([A-Z]+)'", code)}
    words |= {word.encode() for word in re.findall(r"return .* or \{?'([A-Z]+)'", code)}
    assert words
    assert words <= set(ANSWERS[script.name]), "what a caller would be told is unknown"
