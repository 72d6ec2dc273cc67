"""The generator writes logs that decode whole; all sides that need no Spark agree on them; a difference is seen."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from muster_pipeline import store
from muster_pipeline.sources.folder import list_segments

from bench.pipeline import sides
from bench.pipeline.__main__ import number, unequal
from bench.pipeline.document import Run, section
from bench.pipeline.generate import BATCHES_PER_ROUND, LOG_PARTITIONS, Shape, make

SHAPE = Shape(rounds=3)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("log"), SHAPE)


def test_scales_for_people() -> None:
    assert [number(text) for text in ("4M", "250k", "7")] == [4_000_000, 250_000, 7]
    assert Shape.of(4_000_000).records == 4_000_000 // (LOG_PARTITIONS * BATCHES_PER_ROUND) * 16 * BATCHES_PER_ROUND
    assert Shape.of(1).rounds == 1


def test_a_generated_log_is_sound_and_always_the_same(log: Path, tmp_path: Path) -> None:
    found = list_segments(str(log))
    assert len(found) == LOG_PARTITIONS
    pieces = [piece for files in found.values() for one in files for piece in one.pieces("c")]
    assert [piece.damages for piece in pieces if piece.damages] == []
    assert sum(piece.records.num_rows for piece in pieces if piece.records is not None) == SHAPE.records
    again = make(tmp_path, SHAPE)
    for path in log.rglob("*.log"):
        assert (again / path.relative_to(log)).read_bytes() == path.read_bytes()


def run_of(told: dict[str, dict[str, Any]], records: int = SHAPE.records) -> Run:
    return Run(records=records, log_bytes=1, when="now", load=0, stolen_ticks=0, machine={"cores": "2"}, told=told)


def test_a_target_that_is_missed_says_why_and_one_that_is_held_does_not() -> None:
    peer = {"took_s": [30.0, 25.0], "decode_s": 9.0, "peak_bytes": 1 << 20, "cpu_s": 9.0}
    fast = {"took_s": [40.0, 20.0], "worker_rss": 500 << 20, "peak_bytes": 1 << 30, "cpu_s": 60.0, "tables": "x"}
    slow = fast | {"took_s": [301.0], "worker_rss": 700 << 20}
    held = section(run_of({"spark": fast, "duckdb": peer}, 4_000_000), {"share": "no"})
    assert "workers ≤ 600 MiB: 500 MiB, held" in held
    assert "best peer (duckdb): 1.25x, held" in held
    assert "missed" not in held
    assert "5 min" not in held, "the bound on time is for 100M records"
    missed = section(run_of({"spark": slow, "duckdb": peer}, 99_000_000), {"share": "it makes more tables"})
    assert "pipeline_99M" in missed
    assert "≤ 5 min: 301 s, **missed**: reason not yet known" in missed
    assert "0.08x, **missed**: it makes more tables" in missed


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
    assert sum(rows["commits"].to_pylist()) == SHAPE.records
    assert sum(rows["idle_commits"].to_pylist()) > 0
    text = section(run_of(told), {})
    assert all(f"| {name} |" in text for name in told)
    changed = pq.read_table(told["polars"]["result"])
    pq.write_table(changed.slice(1), told["polars"]["result"])
    assert unequal(told) == ["commit_rate of polars is not that of processes"]
