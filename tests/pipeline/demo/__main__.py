"""`make pipeline-demo`: a minute of a real cluster, its log through the pipeline twice, and the proof of both.

Members join, leave and are killed with SIGKILL, so is a coordinator, offsets are reset by commit. Then the offsets log
is read live and from the files of a replica; both must give the same tables, and what the report says of every group
and partition must be what the coordinators answer at that offset, over `/v1` and over Kafka's protocol. Else the exit
code is 1.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from muster_pipeline import store
from muster_pipeline.cli import reporting
from muster_pipeline.cli.running import Run, build_shown
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.job.live import LiveInput
from muster_pipeline.store.place import place
from muster_pipeline.transforms.settings import FoldSettings
from muster_pipeline.verify import tables as invariants
from pyspark.sql import SparkSession

from tests.pipeline.demo.answers import NONE, Moment, asked, by_tables, differences
from tests.pipeline.demo.life import NAME, living

SHOWN_MAX = 20


class Demo:
    """One run. `findings` holds (what had to be true, what is wrong with it)."""

    def __init__(self, home: Path, seconds: float) -> None:
        self.home, self.seconds = home, seconds
        self.began = time.monotonic()
        self.findings: list[tuple[str, list[str]]] = []

    def say(self, text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - self.began:6.1f} s  {text}\n")
        sys.stdout.flush()

    def run(self) -> bool:
        live, files = self.home / "tables-live", self.home / "tables-files"
        with living(self.home / "cluster", self.seconds, self.say) as life:
            self.say("asking the coordinators")
            moment = asked(life, self.home / "log")
            log_ends = pa.concat_tables(life.log_ends)
            source = LiveInput.whole(life.cluster.bootstrap, NAME)
            ends = {number: end for number, (_, end) in source.ranges.items()}
            self.check("the live log is read up to the offset of the answers", _unequal(moment.log_ends, ends))
            run = Run(
                tables=live, settings=FoldSettings(cluster=NAME, stall_min_ms=10_000), log_ends=None, master="local[2]"
            )
            with run.session() as spark:
                self.ingest(spark, run, source, live, log_ends)
                self.ingest(spark, run, SegmentInput.listed(str(moment.files), NAME), files, log_ends)
        self.compare(moment, live, files)
        for text, wrong in self.findings:
            self.say(f"{'FAILED' if wrong else 'ok    '} {text}")
            for line in wrong[:SHOWN_MAX]:
                self.say(f"         {line}")
        return not any(wrong for _, wrong in self.findings)

    def ingest(self, spark: SparkSession, run: Run, source: Any, tables: Path, log_ends: pa.Table) -> None:
        self.say(f"into {tables}")
        build_shown(
            Run(tables=place(tables), settings=run.settings, log_ends=None, master=run.master), spark, source, log_ends
        )

    def check(self, text: str, wrong: list[str]) -> None:
        self.findings.append((text, wrong))

    def compare(self, moment: Moment, live: Path, files: Path) -> None:
        same = invariants.same_rows(live, files)
        self.check("live and from files: equal silver and gold", [f"{one.where}: {one.what}" for one in same.findings])
        one, other = (store.read("records", root).drop_columns("segment_base") for root in (live, files))
        self.check("live and from files: equal records", [] if one.equals(other) else ["the rows differ"])
        for root in (live, files):
            broken = [f"{f.invariant} {f.where}: {f.what}" for v in invariants.check(root) for f in v.findings]
            self.check(f"invariants of {root.name}", broken)
        tables = by_tables(live)
        count = f"{len(tables.generations)} groups, {len(tables.committed)} offsets, {len(tables.ends)} partitions"
        self.check(f"every group and partition as /v1 says it ({count})", differences(moment.by_admin, tables))
        self.check(
            "every group and partition as Kafka's protocol says it",
            differences(moment.by_kafka, tables, ("generations",)),
        )
        report = self.home / "report.html"
        status = self.home / "status"
        reporting.report(live, reporting.Outputs(html=report, prometheus=self.home / "metrics.prom", status_dir=status))
        self.check("the report's documents say the same", status_differences(moment, status))
        text = report.read_text()
        self.check("the page names every group", [name for name in tables.generations if _escaped(name) not in text])
        self.say(f"report: {report}")


def _escaped(name: str) -> str:
    return name.replace("&", "&amp;").replace("<", "&lt;")


def _unequal(left: Any, right: Any) -> list[str]:
    return [] if left == right else [f"{left} and {right}"]


def status_differences(moment: Moment, folder: Path) -> list[str]:
    """What the report says of each group beside the coordinator's answer: members, generation, offsets and lag."""
    said, found = moment.by_admin, []
    for group, generation in said.generations.items():
        told = json.loads((folder / reporting.status_name(group)).read_text())
        offsets = {(topic, number): at for (of, topic, number), at in said.committed.items() if of == group}
        lags = {place: said.ends[place][1] - at for place, at in offsets.items()}
        expected = {
            "members": None if generation == NONE else len(said.members[group]),
            "generation": None if generation == NONE else generation,
            "lag": sum(lags.values()),
            "quality": "exact",
            "partitions": {place: (at, lags[place]) for place, at in offsets.items()},
        }
        last = told["lastRebalance"]
        shown = {
            "members": told["members"],
            "generation": None if last is None else last["generation"],
            "lag": told["lag"],
            "quality": told["lagQuality"],
            "partitions": {
                (one["topic"], one["partition"]): (one["committed"], one["lag"]) for one in told["worstPartitions"]
            },
        }
        found += [
            f"{name} of {group}: {expected[name]}, the report says {shown[name]}"
            for name in expected
            if expected[name] != shown[name]
        ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline.demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dir", type=Path, help="folder for everything (default: a new one, kept)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the groups live at least")
    given = parser.parse_args()
    home = given.dir or Path(tempfile.mkdtemp(prefix="muster-pipeline-"))
    home.mkdir(parents=True, exist_ok=True)
    return 0 if Demo(home.resolve(), given.seconds).run() else 1


if __name__ == "__main__":
    sys.exit(main())
