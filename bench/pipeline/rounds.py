"""What a round of a stream costs in processor time, on histories of several lengths; and that it is flat.

The log is the benchmark's own (`plain_log`), served as a live cluster from its files. The first round reads all but the
last three batches of each log partition, the others one each: 256 records. Each is a process of its own, as a stream
that was started again is; what is told is the median of their processor time. With --samples each brings a sample of
the log ends of all 144 topic partitions, behind as many as a stream has kept by then.

    python -m bench.pipeline.rounds --records 1M 4M [--samples]
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from muster_pipeline.job.build import build
from muster_pipeline.job.live import LiveInput
from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS
from muster_pipeline.sources.cluster import EARLIEST, LATEST, EpochEnd, Fetched
from muster_pipeline.transforms.settings import FoldSettings

from bench.pipeline import plain_log
from bench.pipeline.batches import COMMIT_EVERY_MS, KEYS_PER_GROUP, LOG_PARTITIONS, START_MS, TOPICS
from bench.pipeline.plain_log import GROUP_EVERY_MS, GROUPS_PER_PARTITION, Shape

RATIO_MAX = 1.3
SECONDS_MAX = 2.0
FETCH_BYTES = 1 << 20
SCRATCH = Path(".cache/bench-pipeline")


class Files:
    """A cluster whose log is a folder of segments, up to `left` records before its end."""

    def __init__(self, log: Path, left: int) -> None:
        self._log = log
        self._end = Shape(rounds=int(log.name.rpartition("-")[2]) // LOG_PARTITIONS // plain_log.BATCHES_PER_ROUND)
        self._left = left
        self._at = (-1, -1, 0, Path())
        self._ends = log.parent / f"ends-{log.name}.json"
        """Where in which file the records behind those that were served begin: a broker's index would know it."""
        self._known: dict[str, list[Any]] = json.loads(self._ends.read_text()) if self._ends.exists() else {}

    def __call__(self, bootstrap: str, properties: Mapping[str, str]) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def partitions(self, topic: str) -> tuple[int, ...]:
        return tuple(range(LOG_PARTITIONS))

    def bound(self, topic: str, partitions: Iterable[int], timestamp: int) -> dict[int, int]:
        end = self._end.records // LOG_PARTITIONS - self._left
        return dict.fromkeys(partitions, 0 if timestamp == EARLIEST else end)

    def topic_id(self, topic: str) -> str:
        return "bench"

    def epoch_ends(self, topic: str, epochs: Mapping[int, int]) -> dict[int, EpochEnd]:
        return {number: EpochEnd(epoch=epoch, end_offset=1 << 60) for number, epoch in epochs.items()}

    def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        number, known, at, path = self._at
        if (number, known) != (partition, offset):
            path, at = self._found(partition, offset)
        with path.open("rb") as file:
            file.seek(at)
            data = file.read(FETCH_BYTES)
        last, size = offset, 0
        while size + 61 <= len(data):
            whole = 12 + int.from_bytes(data[size + 8 : size + 12], "big")
            if size + whole > len(data):
                break
            if last == self.bound("", [partition], LATEST)[partition]:
                self._known[str(partition)] = [last, str(path), at + size]
                self._ends.write_text(json.dumps(self._known))
            last = int.from_bytes(data[size : size + 8], "big") + int.from_bytes(data[size + 23 : size + 27], "big") + 1
            size += whole
        self._at = (partition, last, at + size, path)
        if at + size >= path.stat().st_size:
            self._at = (-1, -1, 0, Path())
        end = self._end.records // LOG_PARTITIONS
        return Fetched(data=data[:size], high_watermark=end, log_start=0, out_of_range=False)

    def _found(self, partition: int, offset: int) -> tuple[Path, int]:
        known, name, place = self._known.get(str(partition), (-1, "", 0))
        if known == offset:
            return Path(name), int(place)
        segments = sorted((self._log / f"__consumer_offsets-{partition}").glob("*.log"))
        path = [one for one in segments if int(one.stem) <= offset][-1]
        data, at = path.read_bytes(), 0
        while int.from_bytes(data[at : at + 8], "big") + int.from_bytes(data[at + 23 : at + 27], "big") < offset:
            at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        return path, at


def sampled(log: Path, left: int) -> pa.Table:
    """Log ends when the log ends `left` records earlier; the first time those of an hour before, too."""
    rounds = Shape(rounds=int(log.name.rpartition("-")[2]) // LOG_PARTITIONS // plain_log.BATCHES_PER_ROUND).rounds
    now_ms = (
        START_MS + (rounds - 1) * COMMIT_EVERY_MS + GROUP_EVERY_MS * (GROUPS_PER_PARTITION - left // KEYS_PER_GROUP) - 3
    )
    first = left == 3 * KEYS_PER_GROUP
    times = [now_ms - COMMIT_EVERY_MS * one for one in range(720 if first else 1)]
    return pa.Table.from_pylist(
        [
            {"cluster": "bench", "topic": f"topic-{topic}", "partition": key, "sample_timestamp_ms": at_ms}
            | {"start_offset": 0, "end_offset": max(0, 1_100 + (at_ms - START_MS) // COMMIT_EVERY_MS * 110)}
            for at_ms in times
            for topic in range(TOPICS)
            for key in range(KEYS_PER_GROUP)
        ],
        schema=LOG_END_OFFSETS,
    )


def one_round(log: Path, tables: Path, left: int, *, has_samples: bool) -> None:
    """Prints its records and seconds of processor time."""
    given = sampled(log, left) if has_samples else None
    before = resource.getrusage(resource.RUSAGE_SELF)
    source = LiveInput.onward("files", "bench", str(tables), every=has_samples, connect=Files(log, left))  # type: ignore[arg-type]
    settings = FoldSettings(cluster="bench")
    built = build(None, source, tables, settings, given, is_appended=True, is_round=True)
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(built.records, f"{seconds:.2f}")


def measured(records: int, *, has_samples: bool) -> tuple[int, float]:
    """(history, seconds of the round behind it), the median of three."""
    log = plain_log.make(SCRATCH, Shape.of(records))
    tables = SCRATCH / f"rounds-{log.name}"
    shutil.rmtree(tables, ignore_errors=True)
    found = []
    for left in [KEYS_PER_GROUP * more for more in (3, 2, 1, 0)]:
        command = [sys.executable, "-m", "bench.pipeline.rounds", "--log", str(log), "--left", str(left), str(tables)]
        command += ["--samples"] if has_samples else []
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        found.append((int(told[0]), float(told[1])))
    assert [one for one, _ in found[1:]] == [LOG_PARTITIONS * KEYS_PER_GROUP] * 3, found
    shutil.rmtree(tables)
    return found[0][0], sorted(seconds for _, seconds in found[1:])[1]


def number(text: str) -> int:
    """4M, 200k or a plain number."""
    units = {"k": 1_000, "M": 1_000_000}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def main() -> int:
    """1 if a round on the longest history costs more than RATIO_MAX times one on the shortest, or SECONDS_MAX."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline.rounds")
    parser.add_argument("--records", nargs="+", type=number, default=[1_000_000, 4_000_000])
    parser.add_argument("--log", type=Path)
    parser.add_argument("--left", type=int, default=0)
    parser.add_argument("--samples", action="store_true")
    parser.add_argument("tables", type=Path, nargs="?")
    given = parser.parse_args()
    if given.log is not None:
        one_round(given.log, given.tables, given.left, has_samples=given.samples)
        return 0
    found = [measured(one, has_samples=given.samples) for one in sorted(given.records)]
    for history, seconds in found:
        print(f"a round of 256 records on {history:,}: {seconds:.2f} s of processor time")
    ratio = found[-1][1] / found[0][1]
    print(f"ratio {ratio:.2f} (at most {RATIO_MAX})")
    return int(ratio > RATIO_MAX or found[-1][1] > SECONDS_MAX)


if __name__ == "__main__":
    sys.exit(main())
