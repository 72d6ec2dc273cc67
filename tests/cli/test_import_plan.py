"""The plan of an import from Redis: nothing that was not acknowledged is passed over; what has no offset is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.import_plan import RedisPosition, Taken, next_offset, parse_stream, plan_import
from muster_coordinator.cli.output import UNKNOWN
from muster_coordinator.groups.assignors.membership import TopicPartition
from muster_coordinator.redis_streams.entry_ids import OFFSET_MAX, EntryId, Offsets

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = Offsets.of_bits(10)
MS_MAX = 2**53 - 1


def at(milliseconds: int, sequence: int) -> int:
    """By decision 80: the sequence is the offset's low ten bits."""
    return milliseconds * 1024 + sequence


@pytest.mark.parametrize(
    ("last", "lowest", "offset"),
    [
        ((0, 0), None, 0),
        ((0, 1), None, 2),
        ((5, 7), None, at(5, 8)),
        ((5, 1023), None, at(6, 0)),
        ((5, 1024), None, at(6, 0)),
        ((5, 2**64 - 1), None, at(6, 0)),
        ((5, 7), (5, 7), at(5, 7)),
        ((5, 7), (4, 0), at(4, 0)),
        ((5, 7), (0, 1), 1),
        # Delivered between the two questions: what the first answer said is the earlier one.
        ((5, 7), (6, 0), at(5, 8)),
        ((MS_MAX - 1, 1023), None, at(MS_MAX, 0)),
    ],
)
def test_the_offset_is_that_of_the_first_entry_not_done_with(
    last: tuple[int, int], lowest: tuple[int, int] | None, offset: int
) -> None:
    position = RedisPosition(EntryId(*last), 0 if lowest is None else 1, None if lowest is None else EntryId(*lowest))
    assert next_offset(position, OFFSETS, "s") == offset <= OFFSET_MAX


ids = st.builds(EntryId, st.integers(0, 50), st.integers(0, 1023)).filter(lambda one: one != (0, 0))


@given(entries=st.sets(ids, min_size=1), delivered=st.integers(0), acknowledged=st.sets(ids))
def test_a_reader_from_there_meets_every_entry_not_acknowledged(
    entries: set[EntryId], delivered: int, acknowledged: set[EntryId]
) -> None:
    """Redis' rules: what is delivered and not acknowledged is pending; a reader gets offsets from the committed one."""
    ordered = sorted(entries)
    given_out = ordered[: delivered % (len(ordered) + 1)]
    pending = [one for one in given_out if one not in acknowledged]
    last = given_out[-1] if given_out else EntryId(0, 0)
    offset = next_offset(RedisPosition(last, len(pending), pending[0] if pending else None), OFFSETS, "s")
    read = {one for one in ordered if at(*one) >= offset}
    assert {*pending, *ordered[len(given_out) :]} <= read
    if not pending:
        assert read == set(ordered[len(given_out) :]), "and nothing is read twice where nothing is pending"


@pytest.mark.parametrize(
    "position",
    [
        RedisPosition(EntryId(9, 0), 1, EntryId(5, 1024)),
        RedisPosition(EntryId(2**64 - 1, 0), 0, None),
        RedisPosition(EntryId(MS_MAX, 0), 0, None),
    ],
)
def test_what_has_no_offset_is_told_and_nothing_is_planned(position: RedisPosition) -> None:
    with pytest.raises(CliError, match=r"no offset was imported: entry .* of s") as told:
        plan_import({P: ("s", position)}, {}, {P: 0}, {P: at(9, 1)}, {"t": OFFSETS})
    assert told.value.code is Exit.REFUSED


@pytest.mark.parametrize(
    ("start", "end", "new"), [(0, at(9, 0), at(5, 8)), (at(6, 0), at(9, 0), at(6, 0)), (0, at(5, 2), at(5, 2))]
)
def test_it_is_limited_to_the_log(start: int, end: int, new: int) -> None:
    position = RedisPosition(EntryId(5, 7), 0, None)
    plan = plan_import({P: ("s", position)}, {P: 3}, {P: start}, {P: end}, {"t": OFFSETS})
    assert plan == [Taken(P, "s", position, 3, new)]


@pytest.mark.parametrize(("bits", "last", "new"), [(1, (5, 0), 11), (1, (5, 1), 12), (20, (5, 7), 5 * 2**20 + 8)])
def test_each_topic_has_bits_of_its_own(bits: int, last: tuple[int, int], new: int) -> None:
    other = TopicPartition("u", 0)
    found = {P: ("s", RedisPosition(EntryId(*last), 0, None)), other: ("o", RedisPosition(EntryId(5, 7), 0, None))}
    bounds = {P: 0, other: 0}, {P: 2**62, other: 2**62}
    plan = plan_import(found, {}, *bounds, {"t": Offsets.of_bits(bits), "u": OFFSETS})
    assert [(one.partition, one.new) for one in plan] == [(P, new), (other, at(5, 8))]


def test_a_stream_without_the_group_gets_no_offset_and_its_log_does_not_matter() -> None:
    position = RedisPosition(EntryId(5, 7), 0, None)
    plan = plan_import({Q: ("q", None), P: ("s", position)}, {}, {P: 0}, {P: at(9, 0)}, {"t": OFFSETS})
    assert [(one.partition, one.new) for one in plan] == [(P, at(5, 8)), (Q, None)]


@pytest.mark.parametrize("unknown", [({P: UNKNOWN}, {P: 1}), ({P: 1}, {P: UNKNOWN})])
def test_an_unknown_log_is_not_guessed(unknown: tuple) -> None:
    with pytest.raises(CliError, match="t-0: log start or end is unknown") as told:
        plan_import({P: ("s", RedisPosition(EntryId(5, 7), 0, None))}, {}, *unknown, {"t": OFFSETS})
    assert told.value.code is Exit.UNREACHABLE


@pytest.mark.parametrize(
    ("text", "stream", "partition"),
    [
        ("orders=orders:3", "orders", TopicPartition("orders", 3)),
        ("a=b:c{d}:1=orders:0", "a=b:c{d}:1", TopicPartition("orders", 0)),
    ],
)
def test_a_stream_of_any_name_is_read(text: str, stream: str, partition: TopicPartition) -> None:
    assert parse_stream(text) == (stream, partition)


@pytest.mark.parametrize("text", ["", "orders", "orders=orders", "=orders:1", "orders=:1", "s=t:-1", "s=t:x", "s=t:²"])
def test_what_is_no_stream_is_refused(text: str) -> None:
    with pytest.raises(CliError, match="is not KEY=TOPIC:PARTITION"):
        parse_stream(text)
