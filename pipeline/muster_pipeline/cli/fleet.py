"""`muster pipeline fleet`: the plan of a run over many clusters, and the run."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from statistics import median
from typing import Any

from muster_pipeline.cli.exits import Exit, leave, say
from muster_pipeline.cli.progress import duration
from muster_pipeline.cli.running import Run
from muster_pipeline.job import fleet
from muster_pipeline.job.fleet_file import Fleet, listed, named
from muster_pipeline.job.limits import FAILURES_TOLD_MAX
from muster_pipeline.job.packing import Load, loads_of
from muster_pipeline.job.unit_costs import Estimate
from muster_pipeline.session.spark import check_java
from muster_pipeline.store import exclusion
from muster_pipeline.store.publish import new_token
from muster_pipeline.tables.errors import BadInput
from muster_pipeline.transforms.settings import FoldSettings


def plan(path: str, *, as_json: bool) -> None:
    """Print how the clusters of a file are packed; no log is read, nothing is written, Spark is not started."""
    found = listed(named(path))
    told = document(found)
    if as_json:
        sys.stdout.write(json.dumps(told, indent=1) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in lines(told)))
    _say_failed(found.failed)


def document(found: Fleet) -> dict[str, Any]:
    """The plan as plain values: bytes, processor seconds."""
    by_wave = loads_of(found.sizes)
    loads = [load for wave in by_wave for load in wave]
    pieces = [piece for load in loads for piece in load.pieces]
    size = sum(piece.bytes for piece in pieces)
    largest = max(pieces, key=lambda one: (one.bytes, one.cluster), default=None)
    cost = Estimate.of(size, len(pieces), len(found.sizes))
    return {
        "clusters": len(found.sizes),
        "unreadable": dict(found.failed),
        "logPartitions": len(pieces),
        "bytes": size,
        "waves": [_wave(wave) for wave in by_wave],
        "tasks": {
            "count": len(loads),
            "bytesMedian": int(median(load.bytes for load in loads)) if loads else 0,
            "bytesMax": max((load.bytes for load in loads), default=0),
            "logPartitionsMax": max((len(load.pieces) for load in loads), default=0),
        },
        "largestLogPartition": None if largest is None else largest._asdict(),
        "estimate": {
            "executorProcessorSeconds": round(cost.executors_s, 1),
            "driverSeconds": round(cost.driver_s, 1),
            "longestTaskSeconds": round(max((_alone(load) for load in loads), default=0.0), 1),
        },
    }


def _wave(loads: tuple[Load, ...]) -> dict[str, int]:
    pieces = [piece for load in loads for piece in load.pieces]
    return {
        "clusters": len({piece.cluster for piece in pieces}),
        "logPartitions": len(pieces),
        "tasks": len(loads),
        "bytes": sum(piece.bytes for piece in pieces),
        "taskBytesMax": max((load.bytes for load in loads), default=0),
    }


def _alone(load: Load) -> float:
    return Estimate.of(load.bytes, len(load.pieces), 0).executors_s


def lines(told: Mapping[str, Any]) -> list[str]:
    """The plan for a person."""
    tasks, cost, largest = told["tasks"], told["estimate"], told["largestLogPartition"]
    spread = f"{_size(tasks['bytesMedian'])} (median), at most {_size(tasks['bytesMax'])}"
    found = [
        f"would read {told['clusters']:,} clusters: {told['logPartitions']:,} log partitions, {_size(told['bytes'])}",
        f"{tasks['count']:,} tasks in {len(told['waves']):,} waves, each with {spread}",
    ]
    if largest is not None:
        found.append(
            f"largest log partition: {largest['log_partition']} of cluster {largest['cluster']}, "
            f"{_size(largest['bytes'])}; a task takes at most {duration(cost['longestTaskSeconds'])}"
        )
    executors, driver = cost["executorProcessorSeconds"], cost["driverSeconds"]
    found.append(
        f"estimated: {duration(executors)} of executors' processor time, and {duration(driver)} on the driver, which "
        "publishes one cluster after another (unit costs: docs/benchmarks.md)"
    )
    return found


def _size(count: int) -> str:
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count} bytes" if unit == "bytes" else f"{size:,.1f} {unit}"


def ingest(run: Run, path: str) -> None:
    """Read the clusters of a file into all tables. Exit code 1 if one of them is not published."""
    clusters = named(path)
    sized = [one.cluster for one in clusters if one.segments is None]
    if sized:
        raise BadInput(f"{path}: cluster {sized[0]} has sizes and no `segments`: that can only be planned (--dry-run)")
    found = listed(clusters)
    exclusion.check(run.tables, new_token())
    check_java()
    failed = dict(found.failed)
    records = published = 0

    def settings(cluster: str) -> FoldSettings:
        return FoldSettings(**{**asdict(run.settings), "cluster": cluster})

    with run.session() as spark:
        for result in fleet.run(spark, found.inputs, run.tables, settings):
            if result.built is None:
                failed[result.cluster] = result.failed or "unknown"
            else:
                published += 1
                records += result.built.records
                say(f"cluster {result.cluster}: run {result.built.snapshot.number}, {result.built.records:,} records")
    say(f"published in {run.tables}: {published:,} of {len(clusters):,} clusters, {records:,} records")
    _say_failed(failed)
    if failed:
        leave(Exit.FAILED, f"{len(failed):,} clusters are as they were before; the others are published")


def _say_failed(failed: Mapping[str, str]) -> None:
    for cluster in sorted(failed)[:FAILURES_TOLD_MAX]:
        say(f"cluster {cluster}: {failed[cluster]}")
    if len(failed) > FAILURES_TOLD_MAX:
        say(f"and {len(failed) - FAILURES_TOLD_MAX:,} more clusters")
