"""The sides, each in its own process: `python -m bench.pipeline.sides SIDE LOG OUT TURNS` prints one line of JSON.

`spark` and `processes` run the product's stage (all tables, bronze included). `duckdb` and `polars` get the commits and
the markers of transactions as Parquet from the product's decoder, in two processes, and compute one gold table,
`commit_rate`, with a join and a window function: they have no decoder for the log, and no fused stage.
"""

import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from muster_pipeline import store
from muster_pipeline.job import distribute, stage
from muster_pipeline.job.build import begin, build, complete
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.job.stage import Done, Stage
from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS
from muster_pipeline.session.spark import session
from muster_pipeline.sources.folder import SegmentFile, list_segments
from muster_pipeline.store.place import place
from muster_pipeline.store.publish import writing
from muster_pipeline.store.writer import encodings
from muster_pipeline.transforms.settings import FoldSettings

from bench.pipeline.mixed_log import LOG_ENDS

CORES: Final = 2
CLUSTER: Final = "bench"
SETTINGS: Final = FoldSettings(cluster=CLUSTER)
TURNS: Final = ("first", "again")
RESULT: Final = "result.parquet"
KEY: Final = ("log_partition", "minute_ms", "group_id", "topic", "partition")
MEASURES: Final = (
    "commits", "advancing_commits", "idle_commits", "rewinds", "messages", "messages_rewound", "interval_max_ms",
    "last_committed_offset", "last_log_offset",
)  # fmt: skip
NEEDED: Final = (
    "log_partition", "log_offset", "append_timestamp_ms", "producer_id", "control_type", "group_id", "topic",
    "partition", "committed_offset",
)  # fmt: skip
SQL: Final = """
WITH rows AS (SELECT * FROM read_parquet('{files}')),
stored AS (
  SELECT *, log_offset AS done_at FROM rows WHERE topic IS NOT NULL AND producer_id < 0
  UNION ALL BY NAME
  SELECT own.*, marker.log_offset AS done_at
  FROM (SELECT * FROM rows WHERE topic IS NOT NULL AND producer_id >= 0) own
  ASOF JOIN (SELECT * FROM rows WHERE control_type IS NOT NULL) marker
    ON own.log_partition = marker.log_partition AND own.producer_id = marker.producer_id
    AND own.log_offset < marker.log_offset
  WHERE marker.control_type = 1
),
steps AS (
  SELECT *, append_timestamp_ms - lag(append_timestamp_ms) OVER key AS waited,
         committed_offset - lag(committed_offset) OVER key AS step
  FROM stored
  WINDOW key AS (PARTITION BY log_partition, group_id, topic, partition ORDER BY done_at, log_offset)
)
SELECT log_partition, append_timestamp_ms // 60000 * 60000 AS minute_ms, group_id, topic, partition,
       count(*) AS commits, count(*) FILTER (step > 0) AS advancing_commits, count(*) FILTER (step = 0) AS idle_commits,
       count(*) FILTER (step < 0) AS rewinds,
       coalesce(sum(greatest(step, 0)), 0)::BIGINT AS messages,
       coalesce(sum(greatest(-step, 0)), 0)::BIGINT AS messages_rewound,
       max(waited) AS interval_max_ms, arg_max(committed_offset, log_offset) AS last_committed_offset,
       max(done_at) AS last_log_offset
FROM steps GROUP BY ALL
"""


def ends(log: Path) -> pa.Table:
    """The samples of log end offsets, as this cluster's."""
    rows = pq.read_table(log / LOG_ENDS)
    return rows.set_column(0, rows.schema.field(0), pa.array([CLUSTER] * len(rows))).cast(LOG_END_OFFSETS)


def spark(log: Path, out: Path, turns: Sequence[str] = TURNS) -> dict[str, Any]:
    """The product, on local[2]; a second turn runs in the same session."""
    began = time.monotonic()
    with_log = {"spark.log.level": "ERROR", "spark.driver.host": "127.0.0.1", "spark.driver.memory": "1g"}
    running = session(f"local[{CORES}]", with_log)
    running.range(1).count()
    start_s = time.monotonic() - began
    took, rss = [], 0
    for turn in turns:
        began = time.monotonic()
        built = build(running, SegmentInput.listed(str(log), CLUSTER), out / turn, SETTINGS, ends(log))
        took.append(time.monotonic() - began)
        rss = max(rss, built.worker_rss_bytes_max)
    running.stop()
    return {"start_s": start_s, "took_s": took, "worker_rss": rss, "tables": str(out / turns[-1])}


def _task(given: tuple[Stage, int]) -> Done:
    return stage.run(*given, stage.attempt_name(0))


def processes(log: Path, out: Path, turns: Sequence[str] = TURNS) -> dict[str, Any]:
    """The same stage in a pool of two processes."""
    took, rss = [], 0
    for turn in turns:
        began = time.monotonic()
        where = place(out / turn)
        with writing(where, CLUSTER):
            begun = begin(SegmentInput.listed(str(log), CLUSTER), where, SETTINGS, ends(log))
            numbers = distribute.ordered(begun.task)
            with multiprocessing.get_context("spawn").Pool(CORES) as pool:
                done = list(pool.imap_unordered(_task, [(begun.task, number) for number in numbers]))
            complete(begun, done)
        took.append(time.monotonic() - began)
        rss = max(rss, *(one.peak_rss_bytes for one in done))
    return {"took_s": took, "worker_rss": rss, "tables": str(out / turns[-1])}


def _decode(given: tuple[tuple[SegmentFile, ...], Path]) -> None:
    files, path = given
    writer = None
    for one in files:
        for piece in one.pieces(CLUSTER, frozenset(NEEDED)):
            if piece.records is not None:
                rows = pa.Table.from_batches([piece.records]).select(NEEDED)
                writer = writer or pq.ParquetWriter(path, rows.schema, **encodings(rows.schema))
                writer.write_table(rows)
    if writer is not None:
        writer.close()


def _decoded(log: Path, out: Path) -> Path:
    """Commits as Parquet, one file per log partition."""
    out.mkdir(parents=True)
    work = [(files, out / f"{number:05}.parquet") for number, files in list_segments(str(log)).items()]
    with multiprocessing.get_context("spawn").Pool(CORES) as pool:
        pool.map(_decode, work, chunksize=1)
    return out / "*.parquet"


def _peer(log: Path, out: Path, turns: Sequence[str], query: Callable[[Path], pa.Table]) -> dict[str, Any]:
    took, decode_s = [], 0.0
    for turn in turns:
        began = time.monotonic()
        files = _decoded(log, out / turn)
        decode_s = time.monotonic() - began
        pq.write_table(query(files), out / RESULT, compression="zstd")
        took.append(time.monotonic() - began)
    return {"took_s": took, "decode_s": decode_s, "result": str(out / RESULT)}


def duckdb(log: Path, out: Path, turns: Sequence[str] = TURNS) -> dict[str, Any]:
    """Decode, then one SQL statement."""
    import duckdb as library

    def query(files: Path) -> pa.Table:
        with library.connect(config={"threads": CORES}) as connection:
            return connection.sql(SQL.format(files=files)).to_arrow_table()

    return _peer(log, out, turns, query)


def polars(log: Path, out: Path, turns: Sequence[str] = TURNS) -> dict[str, Any]:
    """Decode, then one lazy query. The caller sets POLARS_MAX_THREADS."""
    import polars as pl

    def query(files: Path) -> pa.Table:
        key = ["log_partition", "group_id", "topic", "partition"]
        step, waited = pl.col("step"), pl.col("waited")
        every = pl.scan_parquet(files)
        own = every.filter(pl.col("topic").is_not_null())
        marker = every.filter(pl.col("control_type").is_not_null()).select(
            "log_partition", "producer_id", done_at=pl.col("log_offset"), verdict=pl.col("control_type")
        )
        plain = own.filter(pl.col("producer_id") < 0).with_columns(done_at=pl.col("log_offset"))
        settled = (
            own.filter(pl.col("producer_id") >= 0)
            .sort("log_offset")
            .join_asof(
                marker.sort("done_at"),
                left_on="log_offset",
                right_on="done_at",
                by=["log_partition", "producer_id"],
                strategy="forward",
                coalesce=False,
            )
            .filter(pl.col("verdict") == 1)
            .select(*NEEDED, "done_at")
        )
        rows = (
            pl.concat([plain, settled])
            .sort("log_partition", "done_at", "log_offset")
            .with_columns(
                step=pl.col("committed_offset").diff().over(key),
                waited=pl.col("append_timestamp_ms").diff().over(key),
                minute_ms=pl.col("append_timestamp_ms") // 60_000 * 60_000,
            )
            .group_by([*key, "minute_ms"])
            .agg(
                commits=pl.len().cast(pl.Int64),
                advancing_commits=(step > 0).sum().cast(pl.Int64),
                idle_commits=(step == 0).sum().cast(pl.Int64),
                rewinds=(step < 0).sum().cast(pl.Int64),
                messages=step.clip(lower_bound=0).sum(),
                messages_rewound=(-step).clip(lower_bound=0).sum(),
                interval_max_ms=waited.max(),
                last_committed_offset=pl.col("committed_offset").last(),
                last_log_offset=pl.col("done_at").last(),
            )
        )
        return rows.collect().to_arrow()

    return _peer(log, out, turns, query)


SIDES: Final = {"spark": spark, "processes": processes, "duckdb": duckdb, "polars": polars}


def result(told: dict[str, Any]) -> pa.Table:
    """A side's `commit_rate`, in one order and with one set of types."""
    table = store.read("commit_rate", told["tables"]) if "tables" in told else pq.read_table(told["result"])
    types = {"log_partition": pa.int32(), "partition": pa.int32(), "group_id": pa.string(), "topic": pa.string()}
    chosen = table.select([*KEY, *MEASURES]).sort_by([(name, "ascending") for name in KEY])
    schema = pa.schema([(name, types.get(name, pa.int64())) for name in (*KEY, *MEASURES)])
    return chosen.cast(schema).combine_chunks()


if __name__ == "__main__":
    side, log_folder, out_folder, turns_told = sys.argv[1:]
    told = SIDES[side](Path(log_folder), Path(out_folder), TURNS[: int(turns_told)])
    sys.stdout.write(json.dumps(told) + "\n")
