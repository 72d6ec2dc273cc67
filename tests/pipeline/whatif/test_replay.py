"""What-if: histories made by the assignors themselves replay to themselves; costs are those of the definitions."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.groups.assignors.membership import Member, Subscription, Topology
from muster_coordinator.groups.assignors.registry import ASSIGNORS, UnknownAssignor, assignor
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.tables.errors import BadInput
from muster_pipeline.transforms.settings import FoldSettings
from muster_pipeline.whatif.compare import compare, skipped, summary
from muster_pipeline.whatif.history import History, HistoryMember, Step
from muster_pipeline.whatif.replay import Outcome, recorded, replay

from tests.pipeline.logs import NOW_MS, Batch
from tests.pipeline.store import logfolder

COUNTS = {"t": 6, "u": 3}


def history(generations: Sequence[Sequence[str]], static: bool = False) -> History:
    """Members by name; a static member gets a new member id in every generation."""
    steps = []
    for number, names in enumerate(generations):
        members = tuple(
            HistoryMember(
                member_id=f"{name}-{number}" if static else name,
                instance_id=name if static else None,
                topics=("t", "u"),
                rack_id=None,
                recorded=frozenset(),
            )
            for name in names
        )
        steps.append(Step(log_offset=number, generation=number + 1, at_ms=0, members=members, partition_counts=COUNTS))
    return History(group_id="g", steps=tuple(steps), skipped=0)


CHANGES = st.lists(st.lists(st.sampled_from("abcde"), min_size=1, unique=True), min_size=1, max_size=6)


@settings(deadline=None)
@given(generations=CHANGES, name=st.sampled_from(sorted(ASSIGNORS)), static=st.booleans())
def test_every_replay_assigns_everything_and_counts_every_partition_once(
    generations: list[list[str]], name: str, static: bool
) -> None:
    before = 0
    for one in replay(history(generations, static), assignor(name), {}):
        assert one.partitions == 9
        assert one.kept + one.moved + one.gained == one.partitions
        assert one.kept + one.moved + one.lost == before
        assert one.partitions_max - one.partitions_min <= (2 if name == "range" else 1)
        assert one.stall_ms is None
        before = one.partitions


@settings(deadline=None)
@given(generations=CHANGES)
def test_sticky_assignors_move_no_more_than_they_must(generations: list[list[str]]) -> None:
    """A partition moves only from a member that is gone or has too many."""
    for name in ("sticky", "cooperative-sticky"):
        outcomes = replay(history(generations), assignor(name), {})
        for old, new, one in zip([[], *generations], generations, outcomes, strict=False):
            stay = set(old) & set(new)
            if old and stay == set(old) == set(new):
                assert (one.moved, one.kept) == (0, 9)
            if not stay:
                assert one.kept == 0


def test_a_restart_of_a_static_member_moves_nothing_under_a_sticky_assignor() -> None:
    for name in ("sticky", "cooperative-sticky"):
        _, second = replay(history([["a", "b"], ["a", "b"]], static=True), assignor(name), {})
        assert (second.moved, second.kept, second.lost) == (0, 9, 0)


def test_eager_stops_all_and_cooperative_only_what_changes_hands() -> None:
    joins = history([["a", "b"], ["a", "b", "c"]])
    durations = {0: 1_000, 1: 2_000}
    _, eager = replay(joins, assignor("sticky"), durations)
    _, cooperative = replay(joins, assignor("cooperative-sticky"), durations)
    assert (eager.rebalances, eager.stopped, eager.stall_ms) == (1, 9, 18_000)
    assert cooperative.moved == eager.moved == 3
    assert (cooperative.rebalances, cooperative.stopped, cooperative.stall_ms) == (2, 3, 6_000)


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_a_history_that_an_assignor_made_replays_to_itself(name: str, tmp_path: Path) -> None:
    """The recorded plans come from the assignor, go through a log and the tables, and equal the replay."""
    source = history([["a"], ["a", "b"], ["a", "b", "c"], ["c"]])
    owners = plans(source, name)
    batches = [
        Batch(
            records=[logfolder.generation("g", number + 1, plan, protocol=name, at=60_000 * number)],
            timestamp_ms=NOW_MS + 60_000 * number + 500,
        )
        for number, plan in enumerate(owners)
    ]
    logfolder.write(tmp_path / "log", 3, [batches])
    build(None, SegmentInput.listed(str(tmp_path / "log"), "c"), tmp_path / "out", FoldSettings(cluster="c"))
    rows = compare(tmp_path / "out", partition_counts=COUNTS).to_pylist()
    told = {
        one: [{k: v for k, v in row.items() if k != "assignor"} for row in rows if row["assignor"] == one]
        for one in ("recorded", name)
    }
    assert told["recorded"] == told[name]
    assert len(told[name]) == 4
    table = summary(compare(tmp_path / "out", ["g"], ["sticky"], COUNTS), skipped(tmp_path / "out")).to_pylist()
    assert [(row["assignor"], row["generations"], row["skipped"]) for row in table] == [
        ("recorded", 4, 0),
        ("sticky", 4, 0),
    ]
    assert table[1]["moved"] <= table[0]["moved"]


def plans(source: History, name: str) -> list[dict[str, logfolder.Assigned]]:
    """What the assignor's leader gave in each generation, by member."""
    found = []
    for step in source.steps:
        members = [Member(one.member_id, Subscription(topics=one.topics)) for one in step.members]
        made: dict[str, logfolder.Assigned] = {}
        for member_id, parts in assignor(name).assign(members, Topology(COUNTS)).items():
            made[member_id] = {}
            for one in parts:
                made[member_id].setdefault(one.topic, []).append(one.partition)
        found.append(made)
    return found


def test_recorded_second_steps_and_avoided_rebalances_are_not_replayed(tmp_path: Path) -> None:
    plan = [
        (1, {"a#i": {"t": [0, 1]}}),
        (2, {"a#i": {"t": [0]}, "b": {}}),
        (3, {"a#i": {"t": [0]}, "b": {"t": [1]}}),
        (3, {"c#i": {"t": [0]}, "b": {"t": [1]}}),
    ]
    batches = [
        Batch(records=[logfolder.generation("g", number, members, "cooperative-sticky")], timestamp_ms=NOW_MS + at)
        for at, (number, members) in enumerate(plan)
    ]
    logfolder.write(tmp_path / "log", 3, [batches])
    build(None, SegmentInput.listed(str(tmp_path / "log"), "c"), tmp_path / "out", FoldSettings(cluster="c"))
    rows = compare(tmp_path / "out", ["g"], ["cooperative-sticky", "range"]).to_pylist()
    told = {name: [row["generation"] for row in rows if row["assignor"] == name] for name in ("recorded", "range")}
    assert told == {"recorded": [1, 2, 3], "range": [1, 2]}
    moved = {name: sum(row["moved"] + row["lost"] for row in rows if row["assignor"] == name) for name in told}
    assert moved == {"recorded": 1, "range": 1}


def test_questions_that_cannot_be_answered_are_refused(tmp_path: Path) -> None:
    logfolder.make(tmp_path / "log")
    build(None, SegmentInput.listed(str(tmp_path / "log"), "c"), tmp_path / "out", FoldSettings(cluster="c"))
    with pytest.raises(UnknownAssignor):
        compare(tmp_path / "out", assignors=["fair"])
    with pytest.raises(BadInput, match="0 partitions"):
        compare(tmp_path / "out", partition_counts={"t": 0})
    assert compare(tmp_path / "out", ["no such group"]).num_rows == 0


def test_the_first_generation_gains_all_and_stops_nothing() -> None:
    (first,) = recorded(history([["a"]]), {0: 5}, ())
    assert isinstance(first, Outcome)
    assert (first.moved, first.stopped, first.stall_ms) == (0, 0, 0)
