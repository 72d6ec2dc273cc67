"""The plan of an offset reset: kept within the log, counted in records, refused where ends are unknown."""

import pytest
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.output import UNKNOWN
from muster_coordinator.cli.reset_plan import (
    Move,
    parse_duration,
    parse_offsets_file,
    parse_partitions,
    parse_time,
    plan_moves,
)
from muster_coordinator.groups.assignors.membership import TopicPartition

P = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("wanted", "current", "new", "replayed", "skipped"),
    [
        (50, 80, 50, 30, 0),
        (90, 80, 90, 0, 10),
        (80, 80, 80, 0, 0),
        (5, 80, 10, 70, 0),
        (500, 80, 100, 0, 20),
        (10, 2, 10, 0, 0),
        (40, None, 40, 0, 30),
        (10, 300, 10, 90, 0),
    ],
    ids=["back", "on", "stay", "below-start", "beyond-end", "current-expired", "no-commit", "current-beyond-end"],
)
def test_moves_stay_within_the_log_and_count_what_it_still_holds(wanted, current, new, replayed, skipped):
    committed = {} if current is None else {P: current}
    assert plan_moves({P: wanted}, committed, {P: 10}, {P: 100}) == [Move(P, current, new, replayed, skipped)]


def test_a_log_of_unknown_length_is_not_guessed():
    with pytest.raises(CliError, match="no offset was reset") as refused:
        plan_moves({P: 5}, {}, {P: 0}, {P: UNKNOWN})
    assert refused.value.code is Exit.UNREACHABLE


def test_times_are_utc_unless_they_say_otherwise():
    assert parse_time("1970-01-01T00:00:01") == 1000
    assert parse_time("1970-01-01T01:00:01.5+01:00") == 1500
    assert parse_time("1970-01-01T00:00:02Z") == 2000
    with pytest.raises(CliError, match="not a time"):
        parse_time("yesterday")


def test_durations():
    assert parse_duration("PT1H30M") == 5_400_000
    assert parse_duration("P1DT0.5S") == 86_400_500
    for wrong in ("P", "PT", "1H", "PT-1H", "P1W"):
        with pytest.raises(CliError, match="not a duration"):
            parse_duration(wrong)


def test_topics_with_and_without_partitions():
    assert parse_partitions("orders") == ("orders", None)
    assert parse_partitions("orders:0,3") == ("orders", (0, 3))
    with pytest.raises(CliError, match="not topic"):
        parse_partitions("orders:x")


def test_offset_files_are_read_whole_or_not_at_all():
    assert parse_offsets_file("t,0,5\n\n u , 1 , 6\n", "f") == {P: 5, TopicPartition("u", 1): 6}
    for wrong in ("t,0", "t,0,x", "t,0,1,2", ",0,1", "t,-1,5", "t,0,-5"):
        with pytest.raises(CliError, match="line 2 of f"):
            parse_offsets_file(f"t,0,5\n{wrong}", "f")
