"""The generator writes logs that decode whole; all sides that need no Spark agree on them; a difference is seen."""

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from muster_pipeline import store
from muster_pipeline.sources.folder import list_segments

from bench.pipeline import mixed_log, plain_log, sides
from bench.pipeline.__main__ import number, unequal
from bench.pipeline.batches import KEYS_PER_GROUP, LOG_PARTITIONS, TOPICS
from bench.pipeline.document import Run, section
from bench.pipeline.mixed_log import Shape, groups_of, is_transactional, make

SHAPE = Shape(rounds=2)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("log"), SHAPE)


def test_scales_for_people() -> None:
    assert [number(text) for text in ("4M", "250k", "7")] == [4_000_000, 250_000, 7]
    assert 0.95 < Shape.of(4_000_000).records / 4_000_000 <= 1
    assert 0.99 < Shape.of(100_000_000).records / 100_000_000 <= 1
    assert Shape.of(1).rounds == 1
    assert Shape(rounds=200).records_of(0) * 2 == Shape(rounds=200).records


@pytest.mark.parametrize("kind", [plain_log, mixed_log])
def test_a_generated_log_is_sound_and_always_the_same(kind: Any, tmp_path: Path) -> None:
    shape = kind.Shape(rounds=2)
    log = kind.make(tmp_path / "one", shape)
    found = list_segments(str(log))
    assert len(found) == LOG_PARTITIONS
    pieces = [piece for files in found.values() for one in files for piece in one.pieces("c")]
    assert [piece.damages for piece in pieces if piece.damages] == []
    assert sum(piece.records.num_rows for piece in pieces if piece.records is not None) == shape.records
    again = kind.make(tmp_path / "two", shape)
    for path in log.rglob("*.log"):
        assert (again / path.relative_to(log)).read_bytes() == path.read_bytes()


def test_a_generated_log_has_what_a_large_one_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_log, "GENERATION_ROUNDS", 2)
    shape = Shape(rounds=5)
    root = make(tmp_path, shape)
    for place, files in list_segments(str(root)).items():
        pieces = [piece.records for one in files for piece in one.pieces("c")]
        rows = pa.Table.from_batches([piece for piece in pieces if piece is not None])
        assert rows["log_offset"].to_pylist() == list(range(shape.records_of(place)))
        times = rows["append_timestamp_ms"].to_pylist()
        assert times == sorted(times), "no clock goes back"
        found = [generation_row(row) for row in rows.filter(pc.equal(rows["key_type"], 2)).to_pylist()]
        groups = [f"group-{group:06}" for group in groups_of(place)]
        assert found == [(group, turn) for turn in (1, 2, 3) for group in groups]
        verdicts = rows.filter(rows["is_control"])["control_type"].to_pylist()
        writers = sum(map(is_transactional, groups_of(place)))
        assert len(verdicts) == shape.rounds * writers
        assert 0 <= verdicts.count(0) < len(verdicts) / 10
    assert verdicts_of(root, 0).count(0) > 0
    ends = sides.ends(root)
    assert set(ends["cluster"].to_pylist()) == {sides.CLUSTER}
    assert ends.num_rows == TOPICS * KEYS_PER_GROUP


def generation_row(row: dict[str, Any]) -> tuple[str, int]:
    """Group and generation of a GroupMetadata record."""
    at = 4 + struct.unpack_from(">h", row["value"], 2)[0]
    return row["group_id"], struct.unpack_from(">i", row["value"], at)[0]


def verdicts_of(root: Path, number: int) -> list[int]:
    pieces = [piece.records for one in list_segments(str(root))[number] for piece in one.pieces("c")]
    return [
        one for piece in pieces if piece is not None for one in piece["control_type"].to_pylist() if one is not None
    ]


def run_of(told: dict[str, dict[str, Any]], records: int = SHAPE.records) -> Run:
    return Run(records=records, log_bytes=1, when="now", load=0, stolen_ticks=0, machine={"cores": "2"}, told=told)


def test_a_target_that_is_missed_says_why_and_one_that_is_held_does_not() -> None:
    peer = {"took_s": [30.0, 25.0], "decode_s": 9.0, "peak_bytes": 1 << 20, "cpu_s": 9.0}
    fast = {"took_s": [40.0, 20.0], "worker_rss": 400 << 20, "peak_bytes": 1 << 30, "cpu_s": 60.0, "tables": "x"}
    slow = fast | {"took_s": [121.0], "worker_rss": 700 << 20}
    held = section(run_of({"spark": fast, "duckdb": peer}, 4_000_000), {"share": "no"})
    assert "workers ≤ 450 MiB: 400 MiB, held" in held
    assert "best peer (duckdb): 1.25x, held" in held
    assert "missed" not in held
    assert "120 s" not in held, "the bound on time is for 100M records"
    missed = section(run_of({"spark": slow, "duckdb": peer}, 99_000_000), {"share": "it makes more tables"})
    assert "pipeline_99M" in missed
    assert "≤ 120 s: 121 s, **missed**: reason not yet known" in missed
    assert "0.21x, **missed**: it makes more tables" in missed


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_processes_duckdb_and_polars_agree(log: Path, tmp_path: Path) -> None:
    told = {
        name: {**sides.SIDES[name](log, tmp_path / name), "peak_bytes": 1 << 20, "cpu_s": 9.0}
        for name in ("processes", "duckdb", "polars")
    }
    assert unequal(told) == []
    assert store.read("records", told["processes"]["tables"]).num_rows == SHAPE.records
    rows = sides.result(told["processes"])
    verdicts = [one for place in range(LOG_PARTITIONS) for one in verdicts_of(log, place)]
    groups = [group for one in range(LOG_PARTITIONS) for group in groups_of(one)]
    assert verdicts.count(0) > 0
    assert sum(rows["commits"].to_pylist()) == 16 * (len(groups) * SHAPE.rounds - verdicts.count(0))
    assert store.read("generations", told["processes"]["tables"]).num_rows == len(groups)
    assert store.read("lag", told["processes"]["tables"]).num_rows > 0
    assert sum(rows["idle_commits"].to_pylist()) > 0
    text = section(run_of(told), {})
    assert all(f"| {name} |" in text for name in told)
    changed = pq.read_table(told["polars"]["result"])
    pq.write_table(changed.slice(1), told["polars"]["result"])
    assert unequal(told) == ["commit_rate of polars is not that of processes"]
