"""How the log partitions of many clusters become tasks: any fleet by properties, and one of 10,000 clusters with
1,000,000 groups, whose plan is made without Spark and without reading a log."""

import json
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_pipeline.__main__ import app
from muster_pipeline.cli.exits import Exit
from muster_pipeline.job import limits, packing
from muster_pipeline.job.packing import Piece, loads_of, packed, waves
from muster_pipeline.job.unit_costs import (
    BYTE_NS,
    PUBLICATION_MS,
    TASK_AS_BYTES,
    TASK_MS,
    Estimate,
)
from typer.testing import CliRunner

BENCHMARKS = Path(__file__).parents[3] / "docs" / "benchmarks.md"
CLUSTERS, GROUPS, LOG_PARTITIONS, SEED = 10_000, 1_000_000, 50, 20
GROUP_BYTES = 40_000
"""Median of a simulated group's commits in the log."""

names = st.text(max_size=4)
sizes = st.one_of(st.just(0), st.integers(0, 1 << 20), st.integers(0, 1 << 40), st.just((1 << 63) - 1))
fleets = st.dictionaries(names, st.dictionaries(st.integers(0, 60), sizes, max_size=8), max_size=12)


def pieces_in(clusters: dict[str, dict[int, int]]) -> list[Piece]:
    return [Piece(cluster, number, size) for cluster, found in clusters.items() for number, size in found.items()]


@given(fleets, st.integers(1, 40), st.randoms())
def test_no_task_has_more_than_the_mean_and_one_log_partition(clusters, tasks, shuffle) -> None:  # type: ignore[no-untyped-def]
    """The bound of Graham's lists (1966), for any sizes: and each log partition is in one task, none is empty."""
    pieces = pieces_in(clusters)
    loads = packed(pieces, tasks)
    assert Counter(piece for load in loads for piece in load.pieces) == Counter(pieces)
    assert len(loads) == min(tasks, len(pieces))
    assert all(load.pieces for load in loads)
    total = sum(piece.bytes + TASK_AS_BYTES for piece in pieces)
    for load in loads:
        assert load.weight == sum(piece.bytes + TASK_AS_BYTES for piece in load.pieces)
        lightest = load.pieces[-1].weight
        assert len(loads) * (load.weight - lightest) <= total, "it was the least loaded before its last one"
        if load.pieces[0].weight * len(loads) > total:
            rest = [other for other in loads if other is not load]
            assert len(load.pieces) == 1 or all(other.weight >= load.pieces[0].weight for other in rest)
    shuffle.shuffle(pieces)
    assert packed(pieces, tasks) == loads, "whatever their order"


@given(fleets, st.integers(1, 5), st.integers(1, 20))
def test_waves_are_whole_clusters_within_their_limits(clusters, most, partitions) -> None:  # type: ignore[no-untyped-def]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(packing, "WAVE_CLUSTERS_MAX", most)
        patched.setattr(packing, "WAVE_LOG_PARTITIONS_MAX", partitions)
        found = waves(clusters)
        loads = loads_of(clusters)
    assert sorted(name for wave in found for name in wave) == sorted(clusters)
    heaviest = [max(clusters[name].values(), default=0) for wave in found for name in wave]
    assert heaviest == sorted(heaviest, reverse=True)
    for names_, wave in zip(found, loads, strict=True):
        assert len(names_) <= most
        assert len(names_) == 1 or sum(len(clusters[name]) for name in names_) <= partitions
        assert {piece for load in wave for piece in load.pieces} == set(
            pieces_in({name: clusters[name] for name in names_})
        )


def simulated() -> dict[str, dict[int, int]]:
    """Clusters of a heavy-tailed number of groups, 1,000,000 together, whose bytes are heavy-tailed too; each group
    lies in some log partition, as its hash would say. One log partition has as much as all others."""
    rng = np.random.default_rng(SEED)
    share = rng.pareto(1.2, CLUSTERS) + 0.05
    cluster = np.sort(rng.choice(CLUSTERS, GROUPS, p=share / share.sum()))
    number = rng.integers(0, LOG_PARTITIONS, GROUPS)
    size = rng.lognormal(np.log(GROUP_BYTES), 1.5, GROUPS)
    found = np.bincount(cluster * LOG_PARTITIONS + number, size, CLUSTERS * LOG_PARTITIONS).astype(np.int64)
    found[7] += found.sum()
    return {
        f"c-{at:05}": dict(enumerate(found[at * LOG_PARTITIONS : (at + 1) * LOG_PARTITIONS].tolist()))
        for at in range(CLUSTERS)
    }


def test_ten_thousand_clusters_with_a_million_groups_are_planned_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = simulated()
    file = tmp_path / "fleet.jsonl"
    file.write_text(
        "".join(json.dumps({"cluster": name, "log_partitions": found}) + "\n" for name, found in clusters.items())
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    given_ = ["fleet", "--clusters", str(file), "--tables", str(tmp_path / "out"), "--dry-run"]
    began = time.process_time()
    done = CliRunner().invoke(app, [*given_, "--json"])
    took_s = time.process_time() - began
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    size = sum(sum(found.values()) for found in clusters.values())
    assert (told["clusters"], told["logPartitions"], told["bytes"]) == (CLUSTERS, CLUSTERS * LOG_PARTITIONS, size)
    assert sum(wave["bytes"] for wave in told["waves"]) == size
    assert sum(wave["clusters"] for wave in told["waves"]) == CLUSTERS
    assert max(wave["clusters"] for wave in told["waves"]) <= limits.WAVE_CLUSTERS_MAX
    assert sum(wave["tasks"] for wave in told["waves"]) == told["tasks"]["count"]
    weight = size + CLUSTERS * LOG_PARTITIONS * TASK_AS_BYTES
    assert told["tasks"]["count"] <= weight / limits.TASK_BYTES + len(told["waves"])
    assert told["largestLogPartition"] == {"cluster": "c-00000", "log_partition": 7, "bytes": clusters["c-00000"][7]}
    assert told["tasks"]["bytesMax"] == clusters["c-00000"][7], "it has a task for itself"
    second = sorted(size for found in clusters.values() for size in found.values())[-2]
    for wave in told["waves"][1:]:
        assert wave["taskBytesMax"] <= max(second, limits.TASK_BYTES) + limits.TASK_BYTES
    cost = Estimate.of(size, CLUSTERS * LOG_PARTITIONS, CLUSTERS)
    assert told["estimate"]["executorProcessorSeconds"] == pytest.approx(cost.executors_s, abs=0.1)
    assert told["estimate"]["driverSeconds"] == pytest.approx(CLUSTERS * PUBLICATION_MS / 1e3)
    assert not (tmp_path / "out").exists()
    assert took_s < 60, "seconds of processor time; 5 on a quiet machine"


def test_a_plan_for_a_person(tmp_path: Path) -> None:
    file = tmp_path / "fleet.jsonl"
    rows = [
        {"cluster": "a", "log_partitions": {"0": 3 << 30, "1": 0}},
        {"cluster": "b", "log_partitions": {"49": 1 << 20}},
        {"cluster": "gone", "segments": str(tmp_path / "nowhere")},
    ]
    file.write_text("\n\n".join(map(json.dumps, rows)))
    done = CliRunner().invoke(app, ["fleet", "--clusters", str(file), "--tables", str(tmp_path / "out"), "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "would read 2 clusters: 3 log partitions, 3.0 GiB\n" in done.stdout
    assert "largest log partition: 0 of cluster a, 3.0 GiB; a task takes at most 1 min" in done.stdout
    assert "cluster gone: " in done.stderr
    assert "is no folder" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no cluster"),
        ("{", "line 1 is no JSON"),
        ("[" * 100_000, "line 1 is nested too deeply"),
        ("[]", "line 1 is no object"),
        ('{"cluster": "c"}', "needs one of `segments` and `log_partitions`"),
        ('{"cluster": "c", "segments": "/x", "log_partitions": {"0": 1}}', "needs one of"),
        ('{"cluster": "", "segments": "/x"}', "needs `cluster`, a text"),
        ('{"cluster": 7, "segments": "/x"}', "needs `cluster`, a text"),
        ('{"cluster": "c", "segments": ["/x"]}', "`segments` is a folder or URI"),
        ('{"cluster": "c", "segment": "/x"}', "unknown field 'segment'"),
        ('{"cluster": "c", "log_partitions": {}}', "is an object of sizes"),
        ('{"cluster": "c", "log_partitions": {"01": 1}}', "'01' is no number of a log partition"),
        ('{"cluster": "c", "log_partitions": {"²": 1}}', "is no number of a log partition"),
        ('{"cluster": "c", "log_partitions": {"2147483648": 1}}', "is no number of a log partition"),
        ('{"cluster": "c", "log_partitions": {"' + "9" * 9_000 + '": 1}}', "is no number of a log partition"),
        ('{"cluster": "c", "log_partitions": {"0": -1}}', "is no number of bytes"),
        ('{"cluster": "c", "log_partitions": {"0": true}}', "is no number of bytes"),
        ('{"cluster": "c", "log_partitions": {"0": 9223372036854775808}}', "is no number of bytes"),
        ('{"cluster": "c", "segments": "/x"}\n{"cluster": "c", "segments": "/y"}', "line 2: cluster c is named twice"),
        ('{"cluster": "' + "c" * (1 << 20) + '"}', "FLEET_LINE_BYTES_MAX"),
        ('{"cluster": "\udcff", "segments": "/x"}', "is no JSON"),
    ],
    ids=range(21),
)
def test_a_file_of_clusters_that_cannot_be_used_is_a_sentence(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "fleet.jsonl"
    file.write_bytes(text.encode(errors="surrogateescape"))
    done = CliRunner().invoke(app, ["fleet", "--clusters", str(file), "--tables", str(tmp_path / "out"), "--dry-run"])
    assert done.exit_code == Exit.USAGE, done.output
    assert said in done.stderr
    assert len(done.stderr) < 1_000
    assert not (tmp_path / "out").exists()


def test_more_log_partitions_than_a_plan_may_have_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from muster_pipeline.job import fleet_file

    monkeypatch.setattr(fleet_file, "FLEET_LOG_PARTITIONS_MAX", 5)
    monkeypatch.setattr(fleet_file, "FLEET_CLUSTERS_MAX", 2)
    file = tmp_path / "fleet.jsonl"
    for count, said in ((2, "FLEET_LOG_PARTITIONS_MAX = 5"), (3, "FLEET_CLUSTERS_MAX = 2")):
        rows = [{"cluster": str(at), "log_partitions": {"0": 1, "1": 1, "2": 1}} for at in range(count)]
        file.write_text("\n".join(map(json.dumps, rows)))
        done = CliRunner().invoke(app, ["fleet", "--clusters", str(file), "--tables", str(tmp_path), "--dry-run"])
        assert (done.exit_code, said in done.stderr) == (Exit.USAGE, True), done.output


def test_the_unit_costs_are_those_of_the_documents() -> None:
    text = BENCHMARKS.read_text("utf-8").partition("**Unit costs")[2]
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \| ([\d.]+) \|", text, re.MULTILINE)
    assert {name: float(value) for name, value in rows} == {
        "BYTE_NS": BYTE_NS,
        "TASK_MS": TASK_MS,
        "PUBLICATION_MS": PUBLICATION_MS,
    }
