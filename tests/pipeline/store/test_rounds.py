"""Rounds of a stream go on from a stored state, with samples of log end offsets and without: the rows of a batch at
every cut, at the cost of what is new; a state that is lost, foreign or of other files is noticed and made again."""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from muster_pipeline import store
from muster_pipeline.job import build as job
from muster_pipeline.job import rounds, states
from muster_pipeline.job.build import Built, build
from muster_pipeline.job.inputs import BronzeInput
from muster_pipeline.job.live import LiveInput
from muster_pipeline.job.rounds import unmerged
from muster_pipeline.job.truncation import published_epochs
from muster_pipeline.sources.cluster import Fetched
from muster_pipeline.store import reader
from muster_pipeline.store.files import FileEntry
from muster_pipeline.store.limits import MERGED_BELOW_ROWS
from muster_pipeline.store.optimize import optimize
from muster_pipeline.transforms import clock
from muster_pipeline.transforms.settings import FoldSettings
from muster_pipeline.verify.tables import check, same_rows
from typing_extensions import override

from tests.pipeline import logs
from tests.pipeline.store import logfolder
from tests.pipeline.store.test_live import (
    COUNT,
    EPOCHS,
    SETTINGS,
    Cluster,
    base_and_last,
    log,
    other,
    with_epochs,
)
from tests.pipeline.tables.generated import log_end_table


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and files are final early, so that rounds of a few records append."""
    monkeypatch.setattr(clock, "CLOCK_WITNESSES", 2)
    monkeypatch.setattr(rounds, "MERGED_BELOW_ROWS", 3)
    monkeypatch.setattr(rounds, "MERGED_RATIO", 2)


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("batch")
    build(None, LiveInput.whole("b", "c", connect=Cluster(COUNT)), root, SETTINGS)
    return root


def follow(root: Path, cuts: Iterable[int], settings: FoldSettings = SETTINGS) -> list[Built]:
    done = []
    for cut in cuts:
        source = LiveInput.onward("b", "c", str(root), every=False, connect=Cluster(cut))
        if source.ranges:
            done.append(build(None, source, root, settings, is_round=True))
    return done


def sample(cut: int) -> pa.Table:
    """What a stream samples before its round at that cut."""
    at_ms = logfolder.NOW_MS + 16_000 * cut
    return log_end_table([("t", partition, at_ms, 10 * cut + partition, 0) for partition in range(2)])


def sampled(root: Path, cut: int, rows: pa.Table | None = None) -> Built:
    """A round that brings a sample; all log partitions have a part in it."""
    source = LiveInput.onward("b", "c", str(root), connect=Cluster(cut))
    given = sample(cut) if rows is None else rows
    return build(None, source, root, SETTINGS, given, is_appended=True, is_round=True)


def is_the_batch(root: Path, batch: Path) -> None:
    verdict = same_rows(root, batch)
    assert verdict.holds, verdict
    for name in ("records", "quarantine", "files"):
        assert store.read(name, root).equals(store.read(name, batch)), name
    assert all(one.holds for one in check(root)), check(root)


def records(cuts: range) -> int:
    ends = [logfolder.next_offset(log(number)[:cut], 0) for number in range(2) for cut in (cuts.start, cuts.stop)]
    return ends[1] - ends[0] + ends[3] - ends[2]


@pytest.mark.parametrize("cut", range(1, COUNT))
def test_two_rounds_cut_anywhere_are_a_batch(cut: int, batch: Path, tmp_path: Path) -> None:
    first, second = follow(tmp_path, [cut, COUNT])
    assert (first.records, second.records) == (records(range(cut)), records(range(cut, COUNT)))
    is_the_batch(tmp_path, batch)


def test_a_round_for_every_batch_reads_what_is_new_and_appends(batch: Path, tmp_path: Path) -> None:
    before: set[FileEntry] = set()
    appended = 0
    parts = set()
    for cut in range(1, COUNT + 1):
        (built,) = follow(tmp_path, [cut])
        assert built.records == records(range(cut - 1, cut))
        now = {one for one in store.published(tmp_path).files if one.table in ("records", "commits")}
        appended += len(before & now)
        before = now
        for number in range(2):
            found = states.found(store.published(tmp_path), number)
            assert found is not None
            parts |= {name for name, files in found.files.items() if files}
            assert found.epochs == published_epochs(store.published(tmp_path), number), "as the records tell them"
    assert appended > COUNT, "files of earlier rounds stay"
    assert parts >= {"records", "commits", "commit_rate", "lag", "generations", "memberships", "rebalances"}
    assert follow(tmp_path, [COUNT]) == []
    is_the_batch(tmp_path, batch)


def test_rounds_with_samples_are_a_batch_and_read_what_is_new(tmp_path: Path) -> None:
    """One whole round for the first samples, then a round for every batch; the last ones bring no sample."""
    root = tmp_path / "stream"
    follow(root, range(1, 3))
    lags = []
    for cut in range(3, COUNT + 1):
        read = sampled(root, cut).records if cut < COUNT - 1 else follow(root, [cut])[0].records
        assert read == records(range(cut) if cut == 3 else range(cut - 1, cut)), cut
        for number in range(2):
            found = states.found(store.published(root), number)
            assert found is not None
            lags.append(sum(one.rows for one in found.files["lag"]))
        if cut % 6 == 0 or cut == COUNT:
            ends = store.read("log_end_offsets", root)
            build(None, LiveInput.whole("b", "c", connect=Cluster(cut)), tmp_path / str(cut), SETTINGS, ends)
            is_the_batch(root, tmp_path / str(cut))
    assert 0 < lags[-5] < lags[-1] == max(lags), "rows of lag are appended, when samples or the log's end decide them"
    assert "exact" in store.read("lag", root)["quality"].to_pylist()


def spoiled(root: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> FoldSettings:
    found = store.published(root)
    if how == "other settings":
        return FoldSettings(cluster="c", stall_min_ms=7)
    if how == "other code":
        monkeypatch.setattr(states, "_code", lambda: "other")
    if how == "a batch in between":
        build(None, BronzeInput.published(root), root, SETTINGS)
    if how == "merged files":
        optimize(found, 0, "t")
    if how == "a flipped bit":
        monkeypatch.setattr(states, "state_of", lambda *_: b"\0" * 50)
    if how == "another place":
        real = states.found
        monkeypatch.setattr(
            states, "found", lambda *given: None if (one := real(*given)) is None else replace(one, end_offset=1)
        )
    if how == "samples in between":
        build(None, BronzeInput.published(root), root, SETTINGS, sample(3))
    return SETTINGS


@pytest.mark.parametrize("how", ["late", "others", "none before", "too many open rows"])
def test_samples_that_a_state_does_not_go_on_with(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "stream"
    if how == "too many open rows":
        monkeypatch.setattr(rounds, "LAG_OPEN_POINTS_MAX", -1)
    for cut in range(4, 7):
        if how == "none before":
            follow(root, [cut])
        else:
            sampled(root, cut)
    if how == "others":
        ends = sample(7)
        source = LiveInput.onward("b", "c", str(root), connect=Cluster(COUNT))
        built = build(None, source, root, SETTINGS, ends, is_round=True)
    else:
        built = sampled(root, COUNT, sample(6 if how == "late" else COUNT))
        ends = store.read("log_end_offsets", root)
    assert built.records == records(range(COUNT)), "all was folded again"
    build(None, LiveInput.whole("b", "c", connect=Cluster(COUNT)), tmp_path / "batch", SETTINGS, ends)
    is_the_batch(root, tmp_path / "batch")


def test_a_recorded_file_that_grows_is_gone_on_with(tmp_path: Path) -> None:
    """Somebody else samples into a file; each round is given all of it."""
    root, given = tmp_path / "stream", sample(1)
    for cut in range(4, COUNT + 1):
        given = pa.concat_tables([given, sample(cut)]) if cut % 3 else given
        source = LiveInput.onward("b", "c", str(root), connect=Cluster(cut))
        built = build(None, source, root, SETTINGS, given, is_round=True)
        assert built.records == records(range(cut) if cut == 4 else range(cut - 1, cut))
        assert store.read("log_end_offsets", root).equals(given)
    build(None, LiveInput.whole("b", "c", connect=Cluster(COUNT)), tmp_path / "batch", SETTINGS, given)
    is_the_batch(root, tmp_path / "batch")


@pytest.mark.parametrize(
    "how",
    ["other settings", "other code", "a batch in between", "merged files", "a flipped bit", "another place",
     "samples in between"],
)  # fmt: skip
def test_a_foreign_state_is_noticed_and_made_again(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(tmp_path, range(1, 6))
    settings = spoiled(tmp_path, how, monkeypatch)
    (built,) = follow(tmp_path, [COUNT], settings)
    assert built.records == records(range(COUNT)), "all was folded again"
    monkeypatch.undo()
    whole = tmp_path / "batch"
    samples = store.read("log_end_offsets", tmp_path) if how == "samples in between" else None
    build(None, LiveInput.whole("b", "c", connect=Cluster(COUNT)), whole, settings, samples)
    is_the_batch(tmp_path, whole)


def test_a_state_of_files_that_are_not_published_is_none(tmp_path: Path) -> None:
    """A round that dies before `runs` names its tables leaves the state of the round before."""
    follow(tmp_path, [3])
    shutil.copytree(tmp_path, tmp_path.with_name("copy"))

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "publish", dies)
        with pytest.raises(KeyboardInterrupt):
            follow(tmp_path, [6])
    (built,) = follow(tmp_path, [COUNT])
    assert built.records == records(range(3, COUNT))
    (straight,) = follow(tmp_path.with_name("copy"), [COUNT])
    assert straight.snapshot.identity() == built.snapshot.identity()


@pytest.mark.parametrize("since", [1, 5, COUNT - 1])
def test_withdrawn_rows_cost_one_whole_round(since: int, tmp_path: Path) -> None:
    before, after = Cluster(COUNT), Cluster(COUNT + 2)
    for number in range(2):
        before.logs[number] = with_epochs(log(number), EPOCHS)
        after.logs[number] = other(before.logs[number], since, EPOCHS[-1] + 2)
    for cluster in (before, after):
        source = LiveInput.onward("b", "c", str(tmp_path / "s"), every=False, connect=cluster)
        build(None, source, tmp_path / "s", SETTINGS, is_round=True)
    build(None, LiveInput.whole("b", "c", connect=after), tmp_path / "batch", SETTINGS)
    verdict = same_rows(tmp_path / "s", tmp_path / "batch")
    assert verdict.holds, verdict
    assert all(one.holds for one in check(tmp_path / "s"))


class Long(Cluster):
    """Commits of four groups for so many minutes, in one log partition."""

    def __init__(self, minutes: int) -> None:
        super().__init__(10**9)
        self.logs = {0: logfolder.commits(minutes, ["a", "b", "c", "d"], 3)}
        self.data, self.end = logs.log_of(self.logs[0]), 12 * minutes

    @override
    def partitions(self, topic: str) -> tuple[int, ...]:
        return (0,)

    @override
    def _end(self, partition: int) -> int:
        return self.end

    @override
    def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        at = 0
        while at < len(self.data) and base_and_last(self.data, at)[1] < offset:
            at += 12 + int.from_bytes(self.data[at + 8 : at + 12], "big")
        return Fetched(data=self.data[at:], high_watermark=self.end, log_start=0, out_of_range=False)


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Rows of published tables that are read, by read."""
    found: list[int] = []
    rows_in, read = reader.rows_in, reader.read

    def counted(*given: object) -> Iterator[pa.Table]:
        for rows in rows_in(*given):  # type: ignore[arg-type]
            found.append(rows.num_rows)
            yield rows

    def read_counted(*given: object, **named: object) -> pa.Table:
        rows = read(*given, **named)  # type: ignore[arg-type]
        found.append(rows.num_rows)
        return rows

    monkeypatch.setattr(reader, "rows_in", counted)
    monkeypatch.setattr(reader, "read", read_counted)
    return found


@pytest.mark.parametrize("is_sampled", [False, True])
def test_a_round_does_not_read_the_history(is_sampled: bool, tmp_path: Path, rows_read: list[int]) -> None:
    """Eight times the history, and the same rows are read for the same new ones."""
    costs = []
    for minutes in (50, 400):
        root = tmp_path / str(minutes)
        for upto in (minutes, minutes + 2):
            source = LiveInput.onward("b", "c", str(root), every=False, connect=Long(upto))
            at_ms = logfolder.NOW_MS + 60_000 * upto - 1_000
            ends = log_end_table([("t", partition, at_ms, 10 * upto, 0) for partition in range(3)])
            rows_read.clear()
            given = ends if is_sampled else None
            built = build(None, source, root, SETTINGS, given, is_appended=True, is_round=True)
        costs.append((built.records, sum(rows_read)))
        assert store.read("records", root).num_rows == 12 * (minutes + 2)
    assert costs[0] == costs[1]
    assert costs[0][0] == 24
    assert costs[0][1] < 100


def test_a_thousand_rounds_leave_few_files_and_write_each_row_a_few_times() -> None:
    """The rule alone, with today's sizes: 10 s rounds of a day, five new rows of a log partition in each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "MERGED_BELOW_ROWS", MERGED_BELOW_ROWS)
        patch.setattr(rounds, "MERGED_RATIO", 8)
        files: list[FileEntry] = []
        written, most = 0, 0
        for number in range(8_640):
            kept = unmerged(files, 5)
            rows = 5 + sum(one.rows for one in files[len(kept) :])
            written += rows
            files = [*kept, FileEntry(table="commits", log_partition=0, path=str(number), rows=rows, bytes=1)]
            most = max(most, len(files))
    assert sum(one.rows for one in files) == 8_640 * 5
    assert most <= 12
    assert written <= 8_640 * (MERGED_BELOW_ROWS + 8 * 5)
