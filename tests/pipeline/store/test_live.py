"""A live log into tables in any number of runs: the same bytes as in one, and nothing goes on that should not."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_pipeline import store
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import BronzeInput, SegmentInput
from muster_pipeline.job.live import LiveInput
from muster_pipeline.job.truncation import Epochs, truncated
from muster_pipeline.sources.cluster import EARLIEST, EpochEnd, Fetched
from muster_pipeline.sources.errors import OffsetGone
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
    """Two log partitions, of which only the first `batches` are there; log starts can be moved, logs replaced."""

    def __init__(self, batches: int, topic_id: str = "an-id") -> None:
        self.batches = batches
        self.starts = {0: 0, 1: 0}
        self.logs = {number: log(number) for number in range(2)}
        self.id = topic_id

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

    def topic_id(self, topic: str) -> str:
        return self.id

    def epoch_ends(self, topic: str, epochs: Mapping[int, int]) -> dict[int, EpochEnd]:
        return {number: self._epoch_end(number, epoch) for number, epoch in epochs.items()}

    def _epoch_end(self, partition: int, asked: int) -> EpochEnd:
        """As Kafka's LeaderEpochFileCache.endOffsetFor and UnifiedLog answer; this log has its start at 0."""
        batches = logs.placed(self.logs[partition][: self.batches])
        starts: dict[int, int] = {}
        for batch in batches:
            starts.setdefault(batch.epoch, batch.base)
        if not starts or asked > max(starts):
            return EpochEnd(epoch=-1, end_offset=-1)
        if asked == max(starts):
            return EpochEnd(epoch=asked, end_offset=self._end(partition))
        later = min(epoch for epoch in starts if epoch > asked)
        mine = [epoch for epoch in starts if epoch <= asked]
        return EpochEnd(epoch=max(mine) if mine else asked, end_offset=starts[later])

    def _end(self, partition: int) -> int:
        return logfolder.next_offset(self.logs[partition][: self.batches], 0) if self.batches else 0

    def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        end, start = self._end(partition), self.starts[partition]
        data = logs.log_of(self.logs[partition][: self.batches], 0)
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
        build(None, BronzeInput.published(tmp_path), tmp_path, FoldSettings(cluster="c", stall_min_ms=7))
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
    with pytest.raises(OffsetGone, match="was created again; give another folder"):
        LiveInput.onward("b", "c", str(tmp_path / "live"), connect=Cluster(5, "another-id"))
    other = LiveInput.onward("b", "d", str(tmp_path / "live"), connect=Cluster(5))
    assert other.known is None, "another cluster in the same folder is read from its own start"
    logfolder.make(tmp_path / "log")
    build(None, SegmentInput.listed(str(tmp_path / "log"), "c"), tmp_path / "files", SETTINGS)
    with pytest.raises(BadInput, match="were made from segments"):
        LiveInput.onward("b", "c", str(tmp_path / "files"), connect=Cluster(5))


def with_epochs(batches: list[logs.Batch], epochs: list[int]) -> list[logs.Batch]:
    return [replace(batch, epoch=epoch) for batch, epoch in zip(batches, epochs, strict=True)]


def other(batches: list[logs.Batch], since: int, epoch: int) -> list[logs.Batch]:
    """The log whose batches from `since` on were lost and whose next leader wrote others."""
    rest = [
        logs.Batch(records=[logs.commit("after", "t", n, 7)], timestamp_ms=batches[since].timestamp_ms, epoch=epoch)
        for n in range(len(batches) - since + 2)
    ]
    return [*batches[:since], *rest]


EPOCHS = [0, 0, 1, 1, 1, 3, 3, 3, 3, 3]
assert len(EPOCHS) == len(log(0))


@pytest.mark.parametrize("since", range(1, COUNT))
def test_rows_that_the_log_has_lost_are_withdrawn_and_that_is_said(since: int, tmp_path: Path) -> None:
    """Unclean election: the log goes on beyond the old end, so that no offset tells it."""
    before, after = Cluster(COUNT), Cluster(COUNT + 2)
    for number in range(2):
        before.logs[number] = with_epochs(log(number), EPOCHS)
        after.logs[number] = other(before.logs[number], since, EPOCHS[-1] + 2)
    build(None, LiveInput.whole("b", "c", connect=before), tmp_path / "stream", SETTINGS)
    old = {number: before._end(number) for number in range(2)}
    for _ in range(2):
        source = LiveInput.onward("b", "c", str(tmp_path / "stream"), every=False, connect=after)
        if source.ranges:
            first = {n: logfolder.next_offset(after.logs[n][:since], 0) for n in range(2)}
            assert source.withdrawn == {n: (first[n], old[n]) for n in range(2)}
            build(None, source, tmp_path / "stream", SETTINGS)
    assert source.ranges == {}, "noticed once"
    build(None, LiveInput.whole("b", "c", connect=after), tmp_path / "batch", SETTINGS)
    for name in ("records", "commits", "expiry", "rebalances", "lag", "commit_rate", "generations"):
        assert store.read(name, tmp_path / "stream").equals(store.read(name, tmp_path / "batch")), name
    said = [
        row for row in store.read("quarantine", tmp_path / "stream").to_pylist() if row["reason"] == "log_truncated"
    ]
    assert [(row["first_offset"], row["last_offset"]) for row in said] == [(first[n], old[n] - 1) for n in range(2)]
    assert all("not in the log any more" in row["detail"] for row in said)
    assert all(one.holds for one in check(tmp_path / "stream"))


def test_a_log_that_lost_its_newest_records_and_is_shorter_goes_on(tmp_path: Path) -> None:
    follow(tmp_path, [COUNT, 5, COUNT])
    found = store.read("quarantine", tmp_path)["reason"].to_pylist()
    assert found.count("log_truncated") == 2
    assert store.read("records", tmp_path).num_rows == logfolder.next_offset(log(0), 0) * 2
    assert all(one.holds for one in check(tmp_path))


def test_a_log_without_any_of_the_epochs_that_were_read_was_created_again(tmp_path: Path) -> None:
    before, after = Cluster(COUNT, ""), Cluster(COUNT, "")
    for number in range(2):
        before.logs[number] = with_epochs(log(number), [9] * COUNT)
    build(None, LiveInput.whole("b", "c", connect=before), tmp_path, SETTINGS)
    with pytest.raises(OffsetGone, match="leader epochs 9 to 9 that were read: the log was created again"):
        LiveInput.onward("b", "c", str(tmp_path), connect=after)


STEPS = st.lists(st.integers(0, 2), max_size=6)


@given(STEPS, STEPS, STEPS)
@settings(max_examples=200, deadline=None)
def test_two_logs_agree_up_to_their_last_common_record(common: list[int], mine: list[int], theirs: list[int]) -> None:
    """Each batch is one record. A leader writes one log, so no epoch has records behind the parting in both."""
    shared = list(accumulate(common))
    base = shared[-1] if shared else 0
    ours = shared + [base + 2 * step for step in accumulate(mine)]
    leaders = shared + [base + 1 + 2 * step for step in accumulate(theirs)]
    if not ours:
        return
    starts: dict[int, int] = {}
    for place, epoch in enumerate(ours):
        starts.setdefault(epoch, place)
    known = Epochs(epochs=tuple(starts), starts=tuple(starts.values()), end=len(ours))
    cluster = Cluster(len(leaders))
    cluster.logs[0] = [logs.Batch(records=[logs.commit("g", "t", 0, 1)], epoch=epoch) for epoch in leaders]
    try:
        cut = truncated({0: known}, lambda asked: cluster.epoch_ends("", asked))
    except OffsetGone:
        assert shared == []
    else:
        assert cut == ({0: len(shared)} if mine else {})
