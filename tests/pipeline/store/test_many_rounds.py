"""A stream of many rounds that dies, is vacuumed and optimized, and goes on under a later release with another column:
after any of them, the rows of a batch over all records and samples. `make rounds` runs 1,000; `make test` a few."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest
from muster_pipeline import store
from muster_pipeline.job import build as job
from muster_pipeline.job import rounds, samples, states
from muster_pipeline.job.build import build
from muster_pipeline.job.live import LiveInput
from muster_pipeline.schemas.columns import optional
from muster_pipeline.sources.cluster import EpochEnd, Fetched
from muster_pipeline.store import publish, writer
from muster_pipeline.store.optimize import optimize
from muster_pipeline.store.place import place
from muster_pipeline.store.vacuum import vacuum
from muster_pipeline.tables import catalog
from muster_pipeline.tables.catalog import DERIVED
from muster_pipeline.transforms import clock
from muster_pipeline.verify.tables import check, in_order
from typing_extensions import override

from tests.pipeline import logs
from tests.pipeline.logs import NOW_MS, Batch, Record
from tests.pipeline.store.logfolder import generation
from tests.pipeline.store.test_live import SETTINGS, Cluster, base_and_last
from tests.pipeline.tables.generated import log_end_table

WHOLE = os.environ.get("MUSTER_ROUNDS") == "whole"
ROUNDS = 1_000 if WHOLE else 20
EVERY_MS = 10_000
GROUPS = ("a", "b", "ü:")
PARTITIONS = 2
pytestmark = pytest.mark.timeout(3_600 if WHOLE else 300)


class Growing(Cluster):
    """Two log partitions of which the first rounds are there."""

    def __init__(self, seed: int, count: int) -> None:
        super().__init__(0)
        chance = random.Random(seed)
        self.logs = {number: history(chance, count, number) for number in range(2)}
        self.data = {number: logs.log_of(batches) for number, batches in self.logs.items()}
        self.last_ms = {number: [one.timestamp_ms for one in batches] for number, batches in self.logs.items()}
        self.at = {number: list(placed(data)) for number, data in self.data.items()}
        self.now_ms = NOW_MS

    def seen(self, number: int) -> int:
        """Batches of a log partition that are there now."""
        return sum(at <= self.now_ms for at in self.last_ms[number])

    @override
    def _end(self, partition: int) -> int:
        count = self.seen(partition)
        return self.at[partition][count - 1][2] + 1 if count else 0

    @override
    def _epoch_end(self, partition: int, asked: int) -> EpochEnd:
        return EpochEnd(epoch=asked, end_offset=self._end(partition))

    @override
    def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        count = self.seen(partition)
        mine = [one for one in self.at[partition][:count] if one[2] >= offset]
        data = self.data[partition][mine[0][0] : mine[-1][1]][: 1 << 20] if mine else b""
        return Fetched(data=data, high_watermark=self._end(partition), log_start=0, out_of_range=False)


def placed(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(begin, end, last offset) of each batch."""
    at = 0
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        yield at, end, base_and_last(data, at)[1]
        at = end


def history(chance: random.Random, count: int, number: int) -> list[Batch]:
    """For each round some commits; now and then a transaction, a removed offset, a generation, none for a while."""
    batches: list[Batch] = []
    offsets: dict[tuple[str, int], int] = {}
    made = 0
    for round_ in range(count):
        if chance.random() < 0.1:
            continue
        group, partition = f"{chance.choice(GROUPS)}{number}", chance.randrange(PARTITIONS)
        offsets[group, partition] = max(0, offsets.get((group, partition), 0) + chance.randint(-2, 40))
        record: Record = logs.commit(group, "t", partition, offsets[group, partition])
        kind = chance.random()
        at_ms = NOW_MS + EVERY_MS * round_ + chance.randrange(EVERY_MS)
        if kind < 0.05:
            record = replace(record, value=None)
        elif kind < 0.15:
            made += 1
            record = generation(group, made, {"m": {"t": [0, 1]}, **({"n": {"t": []}} if made % 2 else {})})
        batches.append(Batch(records=[record], timestamp_ms=at_ms))
        if kind > 0.9:
            own = {"producer_id": 9 + round_, "producer_epoch": 0, "transactional": True}
            batches.append(Batch(records=[logs.commit(group, "t", 0, round_)], timestamp_ms=at_ms, **own))  # type: ignore[arg-type]
            batches.append(Batch(records=[logs.marker(chance.randrange(2))], timestamp_ms=at_ms, control=True, **own))  # type: ignore[arg-type]
    return batches


class Stream:
    """Rounds over a growing log, and what they have published."""

    def __init__(self, root: Path, cluster: Growing) -> None:
        self.root, self.cluster = root, cluster
        self.samples: list[pa.Table] = []
        self.records = 0

    def round(self, number: int, *, is_sampled: bool) -> None:
        cluster = self.cluster
        cluster.now_ms = NOW_MS + EVERY_MS * (number + 1)
        places = [("t", one, cluster.now_ms - 50, 20 * number + one, 0) for one in range(PARTITIONS)]
        given = log_end_table(places) if is_sampled else None
        source = LiveInput.onward("b", "c", str(self.root), every=is_sampled, connect=cluster)
        if not source.ranges:
            return
        built = build(
            None, source, self.root, SETTINGS, given, is_appended=True, is_round=True, clock_ms=lambda: cluster.now_ms
        )
        self.records += built.records
        self.samples += [] if given is None else [given]

    def is_the_batch(self, root: Path, said: str) -> None:
        known = pa.concat_tables(self.samples) if self.samples else None
        build(None, LiveInput.whole("b", "c", connect=self.cluster), root, SETTINGS, known)
        for name in ("records", "quarantine", "files", "log_end_offsets", *DERIVED):
            one, other = (
                in_order(name, without_later(store.read(name, side))) for side in (store.published(self.root), root)
            )
            assert one.equals(other), f"{name} {said}: {one.num_rows} rows, a batch has {other.num_rows}"
        assert all(one.holds for one in check(self.root)), said


def without_later(rows: pa.Table) -> pa.Table:
    return rows.drop_columns(["later"]) if "later" in rows.column_names else rows


@pytest.fixture
def _early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and files are final early; samples are not thinned, as old rows that are folded again would say less."""
    monkeypatch.setattr(clock, "CLOCK_WITNESSES", 2)
    monkeypatch.setattr(rounds, "MERGED_BELOW_ROWS", 64)
    monkeypatch.setattr(samples, "LOG_END_FILES_MAX", 8)
    monkeypatch.setattr(samples, "thinned", lambda rows, rows_max: rows)


def evolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a later release runs, whose tables `lag` and `commits` have another column."""
    tables = dict(catalog.TABLES)
    for name in ("lag", "commits"):
        known = tables[name]
        more = optional("later", pa.int64(), "of a later release").field()
        tables[name] = replace(known, schema=known.schema.append(more))
    for module in (catalog, publish):
        monkeypatch.setattr(module, "TABLES", MappingProxyType(tables))
    write = writer.TableWriter.write

    def written(self: writer.TableWriter, rows: pa.Table) -> None:
        wanted = self._table.schema
        if "later" in wanted.names and "later" not in rows.column_names:
            rows = rows.append_column(wanted.field("later"), pa.array([5] * rows.num_rows, pa.int64()))
        write(self, rows)

    monkeypatch.setattr(writer.TableWriter, "write", written)
    monkeypatch.setattr(states, "_code", lambda: "a later release")


class Dies(BaseException):
    """The end of a process, for code that handles errors."""


def died(stream: Stream, number: int, chance: random.Random) -> None:
    """A round that ends before it is published, somewhere."""
    left = chance.randint(1, 60)
    write = writer.TableWriter.write

    def publishes(*_: object) -> None:
        raise Dies

    def writes(self: writer.TableWriter, rows: pa.Table) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Dies
        write(self, rows)

    with pytest.MonkeyPatch.context() as patch:
        if chance.random() < 0.5:
            patch.setattr(job, "publish", publishes)
        else:
            patch.setattr(writer.TableWriter, "write", writes)
        with suppress(Dies):
            stream.round(number, is_sampled=True)


@pytest.mark.usefixtures("_early")
def test_many_rounds_are_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = int(os.environ.get("SEED", time.time_ns() % 10_000_019 if WHOLE else 3))
    chance = random.Random(seed)
    cluster = Growing(seed, ROUNDS)
    stream = Stream(tmp_path / "stream", cluster)
    compared = set(range(ROUNDS // 8, ROUNDS, ROUNDS // 8)) if WHOLE else {ROUNDS // 2 - 1}
    wholes = 1
    for number in range(ROUNDS):
        is_sampled = number % 250 != 7
        stream.round(number, is_sampled=is_sampled)
        wholes += 0 if is_sampled else 1  # the next sample is late for what was told without one
        what = chance.random()
        if what < (0.05 if WHOLE else 0.1):
            died(stream, number, chance)
        elif what > 0.99 or (not WHOLE and number == ROUNDS - 4):
            optimize(store.published(stream.root), 0, publish.new_token())
            wholes += 2
        elif number % 60 == 30:
            vacuum(place(stream.root), cluster.now_ms, publish.new_token())
        if number == ROUNDS // 2:
            evolved(monkeypatch)
            wholes += 2
        if number in compared:
            stream.is_the_batch(tmp_path / f"batch-{number}", f"after round {number} of seed {seed}")
    stream.is_the_batch(tmp_path / "batch", f"at the end of seed {seed}")
    assert "later" in store.read("lag", stream.root).column_names
    whole = store.read("records", stream.root).num_rows
    assert stream.records < whole * (wholes + 2), f"seed {seed}: {stream.records} read for {whole}"
