"""One run of all sides on the same files: records per second, peak memory, and equal results, or no figures at all."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from muster_pipeline import store

from bench import machine
from bench.errors import RunFailed
from bench.pipeline.document import Run, section
from bench.pipeline.mixed_log import Shape, make
from bench.pipeline.sides import CORES, SIDES, result
from bench.report import BEGIN, place

HERE = Path(__file__).resolve().parents[1]
DOCUMENT = HERE.parent / "docs" / "benchmarks.md"
REASONS = HERE / "reasons.toml"
SIDE_SECONDS_MAX = 7_200
SAMPLE_EVERY_S = 0.5
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
BYTES_PER_RECORD = 90
"""Of disk: the log has 64, and the tables of all sides together 6 (measured at 100M)."""
QUIET_LOAD_MAX = 1.0
SETTLE_SECONDS_MAX = 90
"""Longest wait for a low load average, which includes the last minute's work."""
ONE_TURN_FROM = 50_000_000
"""From this number of records each side runs once: a second turn adds little information and takes minutes."""


class Usage(threading.Thread):
    """Peak proportional memory (shared pages counted once) and CPU time of a process and all its descendants.

    CPU time is the last sample of each process: up to SAMPLE_EVERY_S of a process that ends is missed.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._root, self._ended = pid, threading.Event()
        self._cpu_s: dict[int, float] = {}
        self.bytes = 0

    def run(self) -> None:
        while not self._ended.wait(SAMPLE_EVERY_S):
            found = family(self._root)
            self._cpu_s |= found
            self.bytes = max(self.bytes, sum(proportional_bytes(pid) for pid in found))

    def stop(self) -> dict[str, float]:
        self._ended.set()
        self.join()
        return {"peak_bytes": self.bytes, "cpu_s": sum(self._cpu_s.values())}


def family(root: int) -> dict[int, float]:
    """CPU seconds so far, by process id, of `root` and its descendants."""
    parents: dict[int, int] = {}
    cpu_s: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents[pid], cpu_s[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND
    found, grown = {root}, True
    while grown:
        new = {pid for pid, parent in parents.items() if parent in found} - found
        found |= new
        grown = bool(new)
    return {pid: cpu_s[pid] for pid in found if pid in cpu_s}


def proportional_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    told = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(told[1]) * 1024 if told else 0


def run_side(name: str, log: Path, out: Path, turns: int) -> dict[str, Any]:
    environment = {**os.environ, "POLARS_MAX_THREADS": str(CORES), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "bench.pipeline.sides", name, str(log), str(out), str(turns)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    usage = Usage(process.pid)
    usage.start()
    try:
        told, errors = process.communicate(timeout=SIDE_SECONDS_MAX)
    except subprocess.TimeoutExpired as error:
        process.kill()
        raise RunFailed(f"{name} took more than {SIDE_SECONDS_MAX} s") from error
    finally:
        used = usage.stop()
    if process.returncode:
        raise RunFailed(f"{name} failed: {errors[-2000:]}")
    return {**json.loads(told.splitlines()[-1]), **used}


def unequal(told: dict[str, dict[str, Any]]) -> list[str]:
    """Differences: in `commit_rate` between all sides, and in every file between the two that make all tables."""
    names = list(told)
    first = result(told[names[0]])
    found = [
        f"commit_rate of {name} is not that of {names[0]}" for name in names[1:] if not result(told[name]).equals(first)
    ]
    whole = {
        name: {f.content for f in store.published(one["tables"]).files} for name, one in told.items() if "tables" in one
    }
    files = list(whole.values())
    if any(one != files[0] for one in files[1:]):
        found.append(f"the files of {' and '.join(whole)} are not the same")
    return found


def settled() -> float:
    """The load average, once it is that of a quiet machine or the wait is over."""
    until = time.monotonic() + SETTLE_SECONDS_MAX
    while (load := machine.load_average()) > QUIET_LOAD_MAX and time.monotonic() < until:
        time.sleep(SAMPLE_EVERY_S)
    return load


def number(text: str) -> int:
    """`4M`, `250k`, `100`."""
    scale = {"k": 1_000, "M": 1_000_000}.get(text[-1:], 1)
    return int(text.rstrip("kM")) * scale


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=number, default=4_000_000, help="e.g. 4M, 100M")
    parser.add_argument("--sides", default=",".join(SIDES), help="names separated by commas")
    parser.add_argument("--no-doc", action="store_true", help="leave docs/benchmarks.md alone")
    given = parser.parse_args()
    shape = Shape.of(given.records)
    cache = Path(".cache/bench-pipeline")
    cache.mkdir(parents=True, exist_ok=True)
    needed = shape.records * BYTES_PER_RECORD
    if shutil.disk_usage(cache).free < needed:
        sys.stderr.write(f"{shape.records:,} records need about {needed >> 30} GiB free\n")
        return 2
    turns = 1 if shape.records >= ONE_TURN_FROM else 2
    log = make(cache.resolve(), shape)
    load, stolen = settled(), machine.stolen_ticks()
    size = sum(path.stat().st_size for path in log.rglob("*.log"))
    sys.stdout.write(f"{shape.records:,} records, {size >> 20:,} MiB of segments, load {load} before\n")
    told = {}
    with tempfile.TemporaryDirectory(dir=cache) as out:
        for name in given.sides.split(","):
            told[name] = run_side(name, log, Path(out).resolve() / name, turns)
            sys.stdout.write(f"{name}: {json.dumps({k: v for k, v in told[name].items() if not isinstance(v, str)})}\n")
            sys.stdout.flush()
        wrong = unequal(told)
    if wrong:
        sys.stdout.write(f"NOT EQUAL: {'; '.join(wrong)}: no figures\n")
        return 1
    facts = machine.facts(cache)
    run = Run(
        records=shape.records,
        log_bytes=size,
        when=datetime.now(UTC).isoformat(timespec="minutes"),
        load=load,
        stolen_ticks=machine.stolen_ticks() - stolen,
        machine=facts,
        told=told,
    )
    text = section(run, tomllib.loads(REASONS.read_text()).get(run.name, {}))
    sys.stdout.write(f"\n{text}\n\nmachine: {json.dumps(facts)}\nthe results are equal\n")
    if load > QUIET_LOAD_MAX:
        sys.stdout.write("the machine was busy: these figures say nothing about speed, and the document stays\n")
    elif not given.no_doc and set(told) == set(SIDES) and BEGIN.format(run.name) in DOCUMENT.read_text():
        DOCUMENT.write_text(place(DOCUMENT.read_text(), {run.name: text}, [run.name]))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RunFailed as failed:
        sys.stderr.write(f"{failed}\n")
        sys.exit(1)
