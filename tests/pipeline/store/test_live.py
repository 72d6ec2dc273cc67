"""A live log into tables in any number of runs: the same bytes as in one, and nothing goes on that should not."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

import pytest
from muster_pipeline import store
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import BronzeInput, SegmentInput
from muster_pipeline.job.live import LiveInput
from muster_pipeline.sources.cluster import EARLIEST, Fetched
from muster_pipeline.sources.errors import OffsetGone
from muster_pipeline.store.keeping import Sweeper, orphans
from muster_pipeline.tables.errors import BadInput
from muster_pipeline.transforms.settings import FoldSettings
from muster_pipeline.verify.tables import check, same_rows

from tests.pipeline import logs
from tests.pipeline.fleet import group_bytes
from tests.pipeline.store import logfolder
from tests.pipeline.store.logfolder import generation
from tests.pipeline.store.test_build import content

SETTINGS = FoldSettings(cluster="c")


class Cluster:
    """Two log partitions, of which only the first `batches` are there; log starts can be moved."""

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.starts = {0: 0, 1: 0}

    def __call__(self, bootstrap: str, properties: Mapping[str, str]) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def partitions(self, topic: str) -> tuple[int, ...]:
        return (0, 1)

    def bound(self, topic: str, partitions: Iterable[int], timestamp: int) -> dict[int, int]:
        return {one: self.starts[one] if timestamp == EARLIEST else self._end(one) for one in partitions}

    def _end(self, partition: int) -> int:
        return logfolder.next_offset(log(partition)[: self.batches], 0) if self.batches else 0

    def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        end, start = self._end(partition), self.starts[partition]
        data = logs.log_of(log(partition)[: self.batches], 0)
        at = 0
        while at < len(data) and base_and_last(data, at)[1] < offset:
            at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        return Fetched(
            data=data[at : at + 900] if len(data) - at > 900 else data[at:],
            high_watermark=end,
            log_start=start,
            out_of_range=not start <= offset <= end,
        )


def base_and_last(data: bytes, at: int) -> tuple[int, int]:
    base = int.from_bytes(data[at : at + 8], "big")
    return base, base + int.from_bytes(data[at + 23 : at + 27], "big")


def log(partition: int) -> list[logs.Batch]:
    """Groups of both protocols in turns, commits, and group records whose value is broken, in each partition."""
    broken = logs.Record(key=generation("bad", 1, {}).key, value=b"\x00\x03\xff")
    broken_epoch = logs.Record(key=group_bytes.epoch("worse", 1).key, value=b"\x00\x00\x01")
    begun = [group_bytes.member("next", "m", ["t"]), group_bytes.epoch("next", 1)]
    reached = [group_bytes.target_epoch("next", 1), group_bytes.current("next", "m", 1, {b"t" * 16: [0]}, {})]
    head = logs.Batch(records=[*begun, generation(f"g{partition}", 1, {"a": {"t": [0, 1]}})], timestamp_ms=logs.NOW_MS)
    between = logs.Batch(
        records=[
            broken_epoch,
            broken,
            *reached,
            generation(f"g{partition}", 2, {"a": {"t": [0]}, "b": {"t": [1]}}, at=90_000),
            group_bytes.epoch("next", 2),
        ],
        timestamp_ms=logs.NOW_MS + 90_000,
    )
    commits = logfolder.commits(4, [f"g{partition}", "other"], 2)
    return [head, *commits[:3], between, *commits[3:]]


COUNT = len(log(0))


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("batch")
    build(None, LiveInput.whole("b", "c", connect=Cluster(COUNT)), root, SETTINGS)
    assert store.read("records", root).num_rows > COUNT
    assert store.read("quarantine", root)["scope"].to_pylist() == ["record"] * 4
    return root


def follow(root: Path, cuts: Iterable[int], *, every: bool = True) -> None:
    for cut in cuts:
        source = LiveInput.onward("b", "c", str(root), every=every, connect=Cluster(cut))
        if source.ranges:
            build(None, source, root, SETTINGS)


@pytest.mark.parametrize("cut", range(COUNT + 1))
def test_a_stream_cut_anywhere_publishes_the_bytes_of_a_batch(cut: int, batch: Path, tmp_path: Path) -> None:
    follow(tmp_path, [cut, COUNT])
    assert content(tmp_path) == content(batch)


@pytest.mark.parametrize("every", [True, False])
def test_a_run_for_every_batch_publishes_the_bytes_of_one_run(every: bool, batch: Path, tmp_path: Path) -> None:
    follow(tmp_path, [*range(1, COUNT + 1), COUNT], every=every)
    assert content(tmp_path) == content(batch)
    assert all(one.holds for one in check(tmp_path))
    assert same_rows(tmp_path, batch).holds


def test_nothing_new_is_nothing_to_read(batch: Path, tmp_path: Path) -> None:
    follow(tmp_path, [COUNT])
    quiet = LiveInput.onward("b", "c", str(tmp_path), every=False, connect=Cluster(COUNT))
    assert (quiet.ranges, quiet.new()) == ({}, 0)
    assert LiveInput.onward("b", "c", str(tmp_path), connect=Cluster(COUNT)).sizes() == {0: 0, 1: 0}


def test_gold_made_anew_does_not_lose_the_place(batch: Path, tmp_path: Path) -> None:
    follow(tmp_path, [5])
    for _ in range(2):
        build(None, BronzeInput(root=str(tmp_path)), tmp_path, FoldSettings(cluster="c", stall_min_ms=7))
    follow(tmp_path, [COUNT])
    assert content(tmp_path) == content(batch)


def test_deleted_offsets_are_told_once(tmp_path: Path) -> None:
    follow(tmp_path, [3])
    later = Cluster(COUNT)
    later.starts[0] = logfolder.next_offset(log(0)[:6], 0)
    for _ in range(2):
        build(None, LiveInput.onward("b", "c", str(tmp_path), connect=later), tmp_path, SETTINGS)
    gaps = [row for row in store.read("quarantine", tmp_path).to_pylist() if row["scope"] == "gap"]
    first = logfolder.next_offset(log(0)[:3], 0)
    assert [(row["first_offset"], row["last_offset"]) for row in gaps] == [(first, later.starts[0] - 1)]
    assert all(one.holds for one in check(tmp_path))


def test_what_is_not_the_same_log_is_refused(tmp_path: Path) -> None:
    follow(tmp_path / "live", [5])
    with pytest.raises(OffsetGone, match="was cut or created again; give another folder"):
        follow(tmp_path / "live", [4])
    with pytest.raises(BadInput, match="are of cluster c, not d"):
        LiveInput.onward("b", "d", str(tmp_path / "live"), connect=Cluster(5))
    logfolder.make(tmp_path / "log")
    build(None, SegmentInput.listed(str(tmp_path / "log"), "c"), tmp_path / "files", SETTINGS)
    with pytest.raises(BadInput, match="were made from segments"):
        LiveInput.onward("b", "c", str(tmp_path / "files"), connect=Cluster(5))


def test_replaced_files_stay_for_those_who_still_read_them(tmp_path: Path) -> None:
    follow(tmp_path, [3])
    sweeper = Sweeper(tmp_path, grace_s=600)
    assert sweeper.sweep(0.0) == 0
    follow(tmp_path, [COUNT])
    replaced = len(orphans(tmp_path))
    assert replaced > 0
    assert sweeper.sweep(100.0) == 0
    assert sweeper.sweep(699.0) == 0
    assert sweeper.sweep(700.0) == replaced
    assert orphans(tmp_path) == []
    assert all(one.holds for one in check(tmp_path))
