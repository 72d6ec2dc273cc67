"""3,000 of the written bytes flipped, or the file cut there, one at a time: what a start does, exactly.

A start may be refused for the files that say who this folder is only. Damage of a WAL suspends groups; every other file
costs its group at most. All bytes: `make test-damage DAMAGES=all`. With
`MUSTER_REWRITE=1` disks and figures are made anew; commit only what you can explain.
"""

import json
import os
from pathlib import Path

import pytest
from muster_coordinator.storage.wal import Wal

from tests.damage import disks
from tests.damage.judge import MAY_REFUSE, Broken, Outcome, alone, lost, outcome, states
from tests.damage.pieces import Outcomes, Tally, differences, judge, judge_all, lines

PINNED = Path(__file__).with_name("pinned.json")
SAMPLE = 3_000
SLICES = 30
"""Tests that share the sample, so that several processes can."""
EVERY = 25
"""One in so many is judged beside the other replicas."""


@pytest.fixture(scope="module", autouse=True)
def rewritten() -> None:
    if os.environ.get("MUSTER_REWRITE"):
        disks.write()
        write_pinned([{}] * SLICES)


def write_pinned(slices: list[Outcomes]) -> None:
    """A line a slice, and their sums."""
    rows = ",\n".join(json.dumps(one, sort_keys=True) for one in slices)
    PINNED.write_text(f'{{"outcomes": {json.dumps(Tally.of(slices).table())},\n"slices": [\n{rows}\n]}}\n')


@pytest.fixture(scope="module")
def kept(rewritten: None) -> list[disks.SimDisk]:
    return disks.read()


@pytest.fixture(scope="module")
def chosen(kept: list[disks.SimDisk]) -> list[disks.Damage]:
    """The sample, drawn from 440,000 once for all slices of a process."""
    return disks.sample(disks.every_damage(kept[disks.DAMAGED]), SAMPLE)


@pytest.mark.parametrize("part", range(SLICES))
def test_a_damaged_byte_costs_one_group_at_most_and_nothing_acknowledged(chosen: list[disks.Damage], part: int) -> None:
    assert len(chosen) == SAMPLE
    tally = judge(chosen[part::SLICES], EVERY)
    print("\n".join(lines(tally.table())))  # noqa: T201
    assert not tally.broken
    assert tally.majorities == SAMPLE // SLICES // EVERY
    assert sum(tally.outcomes.values()) == SAMPLE // SLICES
    pinned = json.loads(PINNED.read_text())
    if os.environ.get("MUSTER_REWRITE"):
        pinned["slices"][part] = tally.table()
        write_pinned(pinned["slices"])
    else:
        assert tally.table() == pinned["slices"][part]


def test_who_refuses_a_start_is_on_the_list() -> None:
    pinned = json.loads(PINNED.read_text())
    sums = Tally.of(pinned["slices"])
    assert sums.table() == pinned["outcomes"]
    refusing = {kind for kind, of in sums.table().items() if Outcome.REFUSED in of}
    assert refusing <= set(MAY_REFUSE)
    assert len(MAY_REFUSE) <= 3
    assert sum(sums.outcomes.values()) == SAMPLE
    document = (Path(__file__).parents[2] / "docs/format.md").read_text()
    for kind, of in sums.table().items():
        for what, count in of.items():
            assert f"| {kind} | {what} | {count} | {count / sum(of.values()):.1%} |" in document


def test_the_disks_hold_every_kind_of_file_and_are_small(kept: list[disks.SimDisk], chosen: list[disks.Damage]) -> None:
    disk = kept[disks.DAMAGED]
    assert sum(disks.written_bytes(disk, path) for path in disk.files()) <= disks.BYTES_MAX
    assert disks.kinds_of(disk) == disks.kinds_of(disks.made()[disks.DAMAGED]), "what a replica writes today"
    assert disks.kinds_of(disk) == {damage.kind for damage in chosen}


def test_whole_disks_lose_nothing(kept: list[disks.SimDisk]) -> None:
    assert not lost(kept, None)


def test_a_replica_that_votes_although_its_tail_is_lost_is_seen_by_the_judge(
    kept: list[disks.SimDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = kept[disks.DAMAGED]
    wal = max(path for path in disk.files() if path.startswith("wal-offsets/") and path.endswith(".wal"))
    damage = disks.Damage(wal, disk.content(wal).rindex(b"group-0"), cut=False)
    assert not lost(kept, damage)
    monkeypatch.setattr(Wal, "is_suspended", lambda wal, group: False)
    assert any("group-0 of group 1" in missed for missed in lost(kept, damage))


def test_a_group_that_pays_for_another_ones_file_is_seen_by_the_judge(kept: list[disks.SimDisk]) -> None:
    disk = kept[disks.DAMAGED]
    whole = states(alone(disk.durable_copy())[0])
    log = next(path for path in disk.files() if path.startswith("segments/1/") and path.endswith(".log"))
    without = disks.damaged(disk, disks.Damage(log, 100, cut=True))
    with pytest.raises(Broken, match="without state"):
        outcome(without, disks.Damage("born", 3, cut=False), whole)
    identity = disks.damaged(disk, disks.Damage("identity", 3, cut=False))
    with pytest.raises(Broken, match="refused"):
        outcome(identity, disks.Damage("born", 3, cut=False), whole)


def test_pieces_go_on_where_they_were_ended(tmp_path: Path, kept: list[disks.SimDisk]) -> None:
    progress, told = tmp_path / "progress", list[str]()
    few = [damage for damage in disks.every_damage(kept[disks.DAMAGED]) if damage.kind == "born"]
    first = judge_all(few, 14, 1, progress, told.append)
    with progress.open("a") as file:
        file.write('{"digest": "cut in the mid')
    again = judge_all(few, 14, 1, progress, told.append)
    assert again == first
    assert first.majorities == 2
    assert told[-1].startswith("1 pieces are in")
    assert judge_all(few[1:], 14, 1, progress, told.append).majorities == 2, "others are others"


def test_shares_that_differ_are_told() -> None:
    pinned = {"born": {"as before": 90, "refused": 10}}
    assert not differences({"born": {"as before": 940, "refused": 60}}, pinned)
    assert differences({"born": {"as before": 1_000}}, pinned) == [
        "born, as before: 100.0%, pinned 90.0%",
        "born, refused: 0.0%, pinned 10.0%",
    ]
    assert differences({}, pinned)
