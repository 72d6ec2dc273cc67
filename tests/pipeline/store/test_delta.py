"""Delta tables: read by others, one snapshot across tables, many clusters in one folder, new columns, two writers."""

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from muster_pipeline import store
from muster_pipeline.__main__ import app
from muster_pipeline.cli.exits import Exit
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.schemas.columns import optional, required, schema
from muster_pipeline.store import delta, publish, reader
from muster_pipeline.store.files import slug
from muster_pipeline.store.place import Place, place
from muster_pipeline.store.publish import keeping_equal, targets
from muster_pipeline.tables import catalog
from muster_pipeline.tables.errors import (
    BadInput,
    DamagedStore,
    FateUnknown,
    NothingPublished,
    NotShared,
    StoreBusy,
    StoreFailed,
)
from muster_pipeline.transforms.settings import FoldSettings
from typer.testing import CliRunner

from tests.pipeline.store import logfolder, small

DOCS = Path(__file__).parents[3] / "docs" / "pipeline.md"
ODD = "ü:x /%2F _a=b"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    logfolder.make(folder)
    return folder


@pytest.fixture(scope="module")
def root(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("delta")
    for cluster in ("c", ODD):
        build(None, SegmentInput.listed(str(log), cluster), folder, FoldSettings(cluster=cluster))
    return folder


def test_the_recipes_of_the_docs_give_the_rows_that_we_read(log: Path, tmp_path: Path) -> None:
    build(None, SegmentInput.listed(str(log), "prod"), tmp_path / "OUT", FoldSettings(cluster="prod"))
    build(None, SegmentInput.listed(str(log), "other"), tmp_path / "OUT", FoldSettings(cluster="other"))
    text = DOCS.read_text().partition("## Reading the tables")[2].partition("## On a cluster")[0]
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 5
    found: dict[str, Any] = {}
    expected = store.read("lag", store.published(tmp_path / "OUT", "prod")).to_pylist()
    for block in blocks:
        exec(block.replace('"OUT', f'"{tmp_path}/OUT').replace('/OUT")', '/OUT", "prod")'), found)
        lag = found["lag"]
        if "worst" in block:
            assert {group for group, _ in found["worst"].fetchall()} == {row["group_id"] for row in expected}
            lag = lag.to_table(filter=pc.field("cluster") == "prod")
        if isinstance(lag, duckdb.DuckDBPyRelation):
            lag = lag.to_arrow_table()
        rows = lag.to_dicts() if isinstance(lag, pl.DataFrame) else lag.to_pylist()
        assert sorted(map(str, rows)) == sorted(map(str, expected)), block


def test_others_read_the_rows_that_we_read(root: Path) -> None:
    for cluster in ("c", ODD):
        found = store.published(root, cluster)
        read = [name for name in found.tables if found.of(name)]
        assert len(read) >= 11
        for name in read:
            rows = store.read(name, found).to_pylist()
            expected = sorted(map(str, rows))
            assert rows[0]["cluster"] == cluster
            table = DeltaTable(str(root / name), version=found.versions[name])
            mine = [("cluster", "=", cluster)]
            assert sorted(map(str, table.to_pyarrow_table(filters=mine).to_pylist())) == expected, name
            dataset = table.to_pyarrow_dataset()
            by_duckdb = duckdb.execute("SELECT * FROM dataset WHERE cluster = ?", [cluster]).to_arrow_table()
            assert dataset.count_rows() >= len(rows)
            assert sorted(map(str, by_duckdb.to_pylist())) == expected, name
            by_polars = pl.scan_delta(str(root / name), version=found.versions[name])
            assert sorted(map(str, by_polars.filter(pl.col("cluster") == cluster).collect().to_dicts())) == expected
            paths = store.files(name, found)
            by_files = duckdb.read_parquet(paths, hive_partitioning=False).to_arrow_table()
            assert by_files.to_pylist() == rows, "also in their order"
            assert pl.read_parquet(paths, hive_partitioning=False).to_dicts() == rows, name


def test_statistics_let_a_reader_skip_files_and_never_rows(root: Path) -> None:
    """delta-rs reads through the log's statistics; the oracle is a filter over all rows."""
    table = DeltaTable(str(root / "commits"))
    told = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert all(row["min.log_offset"] <= row["max.log_offset"] for row in told)
    assert {row["null_count.group_id"] for row in told} == {0}
    whole = [row for cluster in ("c", ODD) for row in store.read("commits", store.published(root, cluster)).to_pylist()]
    for text in ("log_offset > 40", "group_id = 'g3'", "log_partition = 7", "metadata IS NULL"):
        query = QueryBuilder().register("commits", table).execute(f"SELECT count(*) FROM commits WHERE {text}")
        rows = pa.Table.from_pylist(whole)
        counted = duckdb.sql(f"SELECT count(*) FROM rows WHERE {text}").fetchall()[0][0]
        assert pa.table(query.read_all()).column(0).to_pylist() == [counted]
        assert rows.num_rows > counted > 0 or "NULL" in text


def test_readers_of_a_table_need_version_1_only(root: Path) -> None:
    """DuckDB, Polars, delta-rs and Spark all have it."""
    for name in {*store.published(root, "c").tables, "runs"}:
        if (root / name).exists():
            protocol = DeltaTable(str(root / name)).protocol()
            assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2), name
            assert not protocol.reader_features
            columns = DeltaTable(str(root / name)).metadata().partition_columns
            assert columns[0] == "cluster", name


def test_clusters_in_one_folder_are_never_mixed(root: Path) -> None:
    with pytest.raises(NothingPublished, match=r"holds the clusters c, ü.*name one with --cluster"):
        store.read("commits", root)
    with pytest.raises(NothingPublished, match="nothing is published of cluster d"):
        store.published(root, "d")
    one, other = (store.read("commits", store.published(root, cluster)) for cluster in ("c", ODD))
    assert set(one["cluster"].to_pylist()) == {"c"}
    assert set(other["cluster"].to_pylist()) == {ODD}
    assert one.drop_columns("cluster").equals(other.drop_columns("cluster"))


def test_folder_names_of_clusters_do_not_meet_and_need_no_escape() -> None:
    names = [
        "c",
        "C",
        "a-b",
        "a_b",
        "a b",
        "_a",
        "",
        ".",
        "..",
        "a/b",
        "ü",
        "ü" * 500,
        "x" * 41,
        "x" * 42,
        "runs",
        "%41",
    ]
    assert len({slug(name) for name in names}) == len(names)
    for name in names:
        assert slug(name).encode().isascii()
        assert slug(name).replace("-", "").replace("_", "").isalnum()
        assert slug(name)[0] not in "_."
        assert len(slug(name)) < 80


def test_a_run_is_one_snapshot_and_stays_one(tmp_path: Path) -> None:
    first = small.run(tmp_path, 1)
    second = small.run(tmp_path, 2)
    assert (first.number, second.number) == (1, 2)
    assert small.marks(first) == {"1"}
    assert small.marks(store.published(tmp_path)) == {"2"}
    assert small.marks(store.published(tmp_path, run=1)) == {"1"}
    with pytest.raises(NothingPublished, match="there is no run 9"):
        store.published(tmp_path, run=9)


READER = """
import sys
from muster_pipeline import store
from tests.pipeline.store import small
seen = set()
print("ready", flush=True)
while "100" not in seen:
    found = small.marks(store.published(sys.argv[1]))
    assert len(found) == 1, found
    if found - seen:
        print(*found, flush=True)
    seen |= found
"""


@pytest.mark.computes
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_reader_in_another_process_sees_no_mixture_during_a_hundred_commits(tmp_path: Path) -> None:
    small.run(tmp_path, 0)
    reading = subprocess.Popen([sys.executable, "-c", READER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert reading.stdout is not None
        assert reading.stdout.readline() == "ready\n"
        told: list[str] = []
        for mark in range(1, 101):
            small.run(tmp_path, mark)
            if mark == 50:
                told.append(reading.stdout.readline())  # so it reads between commits, however slowly
        told += reading.communicate(timeout=280)[0].splitlines()
    finally:
        reading.kill()
        reading.wait()
    assert reading.returncode == 0
    assert told[-1] == "100"
    assert int(told[0]) <= 50, "it read between commits"


def test_of_two_writers_of_a_cluster_the_second_publishes_nothing(tmp_path: Path) -> None:
    """As in a store of objects, where no lock is held: both began on run 1."""
    base = small.run(tmp_path, 1)
    small.run(tmp_path, 2, on=base)
    with pytest.raises(StoreBusy, match="has published into"):
        small.run(tmp_path, 3, on=base)
    assert small.marks(store.published(tmp_path)) == {"2"}
    small.run(tmp_path, 4)
    assert small.marks(store.published(tmp_path)) == {"4"}, "what the loser left in the tables is gone"
    assert DeltaTable(str(tmp_path / "lag")).to_pyarrow_table().num_rows == 3


def test_writers_of_several_clusters_publish_side_by_side(tmp_path: Path) -> None:
    """Every commit of one can be overtaken by the others; nobody fails and nobody's rows are lost."""
    clusters = [f"c{number}" for number in range(4)]
    failed: list[BaseException] = []

    def live(cluster: str) -> None:
        try:
            for mark in range(5):
                small.run(tmp_path, mark, cluster=cluster)
        except BaseException as error:  # noqa: BLE001 - a thread's failure is the test's
            failed.append(error)

    threads = [threading.Thread(target=live, args=(cluster,)) for cluster in clusters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    for cluster in clusters:
        assert small.marks(store.published(tmp_path, cluster)) == {"4"}
    numbers = [one.run for one in publish.runs.load(place(tmp_path)).published()]  # type: ignore[union-attr]
    assert numbers == list(range(1, 21))


def test_a_commit_on_a_version_that_is_not_the_newest_is_refused(tmp_path: Path) -> None:
    small.run(tmp_path, 1)
    table = catalog.TABLES["lag"]
    late = delta.made(place(tmp_path), table)
    small.run(tmp_path, 2)
    new = small.write(place(tmp_path), "lag", 8, "c", [small.rows("lag", 1, cluster="c", log_partition=8)])
    with pytest.raises(delta.Overtaken):
        delta.commit(place(tmp_path), late, table, "c", [], new, 0)


def test_what_an_executor_wrote_elsewhere_is_not_published(tmp_path: Path) -> None:
    """Executors without shared storage: 40 of 40 absent files were published once."""
    small.run(tmp_path, 1)
    known, where = store.published(tmp_path), place(tmp_path)
    written = small.write(where, "lag", 7, "c", [small.rows("lag", 2, cluster="c", log_partition=7)])
    path = tmp_path / "lag" / written[0].path
    data = path.read_bytes()
    changes = {
        "cannot be read here": path.unlink,
        "another file is seen": lambda: pq.write_table(small.rows("lag", 9), path),
        "parquet": lambda: path.write_bytes(data[:-4] + b"XXXX"),
    }
    for said, change in changes.items():
        change()
        with pytest.raises(NotShared, match=rf"(?s){said}|cannot be read here"):
            publish.publish(small.publication(where, known, "c", 2), targets(known, ["lag"], written, [7]))
        assert small.marks(store.published(tmp_path)) == {"1"}
    path.write_bytes(data)
    publish.publish(small.publication(where, known, "c", 2), targets(known, ["lag"], written, [7]))
    assert store.read("lag", tmp_path).num_rows == 2


@pytest.fixture
def with_columns(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A later release: more columns in table `lag`."""

    def later(*columns: object) -> None:
        table = catalog.TABLES["lag"]
        more = schema(columns, comment="x")  # type: ignore[arg-type]
        whole = pa.schema([*table.schema, *more], metadata=table.schema.metadata)
        tables: Mapping[str, catalog.Table] = MappingProxyType({**catalog.TABLES, "lag": replace(table, schema=whole)})
        for module in (catalog, publish, small):
            monkeypatch.setattr(module, "TABLES", tables)

    return later


def test_a_new_column_locks_no_folder_and_an_earlier_release_goes_on(
    tmp_path: Path, with_columns: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = place(tmp_path)
    first = small.run(tmp_path, 1)
    with monkeypatch.context() as patched:
        later = dict(catalog.TABLES)
        with_columns(
            optional("later", pa.int64(), "of a later release"), optional("more", pa.list_(pa.string()), "too")
        )
        assert store.read("lag", tmp_path)["later"].to_pylist() == [None] * 3
        assert pa.Table.from_batches(store.Published(tmp_path).batches("lag", ["later"]))["later"].null_count == 3
        known = store.published(tmp_path)
        files = small.write(where, "lag", 8, "c", [small.rows("lag", 2, cluster="c", log_partition=8, later=5)])
        publish.publish(small.publication(where, known, "c", 1), targets(known, ["lag"], files, [8]))
        assert store.read("lag", tmp_path)["later"].to_pylist() == [None] * 3 + [5] * 2
        assert pl.read_delta(str(tmp_path / "lag"))["later"].sum() == 10
        for module in (catalog, publish, small):
            patched.setattr(module, "TABLES", MappingProxyType(later))
        small.run(tmp_path, 3)
        assert store.read("lag", tmp_path)["group_id"].to_pylist() == ["3"] * 3 + [""] * 2
    assert DeltaTable(str(tmp_path / "lag")).to_pyarrow_table(columns=["later"])["later"].null_count == 3
    assert small.marks(first) == {"1"}


def test_a_column_of_another_type_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small.run(tmp_path, 1)
    table = catalog.TABLES["lag"]
    place_of = table.schema.get_field_index("minute_ms")
    other = table.schema.set(place_of, required("minute_ms", pa.string(), "x").field())
    with pytest.raises(BadInput, match=r"column minute_ms of table lag .* is .*long.* and not .*string"):
        delta.made(place(tmp_path), replace(table, schema=other))


def test_equal_files_of_a_round_are_those_of_the_round_before(tmp_path: Path) -> None:
    known, where = small.run(tmp_path, 1), place(tmp_path)
    again = small.write(
        where, "lag", 7, "c", [small.rows("lag", 3, cluster="c", log_partition=7, **small.marked("lag", 1))]
    )
    wanted = keeping_equal(where, known, targets(known, ["lag"], again, [7]))
    assert wanted["lag"] == known.of("lag")
    assert [one.name for one in (tmp_path / "lag" / "c" / "p00007").iterdir()] == [
        known.of("lag")[0].path.split("/")[-1]
    ]
    assert publish.publish(small.publication(where, known, "c", 1), wanted).versions == known.versions


def test_a_table_that_stays_as_it_is_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = small.run(tmp_path, 1)
    opened: list[str] = []
    really = delta.opened
    monkeypatch.setattr(
        delta, "opened", lambda place, name, version=None: (opened.append(name), really(place, name, version))[1]
    )
    second = small.run(tmp_path, 2, names=["commits"])
    assert set(opened) == {"commits", "runs"}
    assert (second.versions["lag"], second.of("lag")) == (first.versions["lag"], first.of("lag"))
    assert second.versions["commits"] != first.versions["commits"]
    opened.clear()
    assert second.files == store.published(tmp_path).files
    assert opened == ["runs"], "a version that was committed here is not read again"
    reader.forget()
    assert second.files == store.published(tmp_path).files, "and it is what the log says"


def test_what_a_dead_run_left_in_a_table_is_taken_back_by_the_next(tmp_path: Path) -> None:
    first = small.run(tmp_path, 1)
    where = place(tmp_path)
    (entry,) = small.write(where, "lag", 7, "c", [small.rows("lag", 2, cluster="c", log_partition=7)])
    found = delta.made(where, catalog.TABLES["lag"])
    delta.commit(where, found, catalog.TABLES["lag"], "c", first.of("lag"), [entry], 0)
    second = small.run(tmp_path, 2, names=["commits"])
    head = delta.opened(where, "lag")
    assert head is not None
    assert (second.versions["lag"], delta.live(head, "lag", "c")) == (head.version(), first.of("lag"))


def test_a_reason_has_no_stack() -> None:
    """Of delta-rs, in colours, with the name node's Java; with Rust's own."""
    hdfs = (
        "Generic HdfsObjectStore error\n          \x1b[31m↳\x1b[0m RPC error\n"
        "           \x1b[31m↳\x1b[0m AccessControlException Permission denied: user=somebody\n"
        "\tat org.apache.hadoop.hdfs.server.namenode.FSPermissionChecker.check(FSPermissionChecker.java:663)\n"
        "\tat java.base/javax.security.auth.Subject.doAs(Subject.java:439)\n"
        "\tat a.B$C$1.<init>(B.java:1)\nCaused by: at noon\n\n"
    )
    expected = "Generic HdfsObjectStore error: RPC error: AccessControlException Permission denied: user=somebody"
    assert delta.reason(OSError(hdfs)) == f"{expected}: Caused by: at noon"
    assert delta.reason(OSError("no\nstack backtrace:\n   0: std::x\n             at /rustc/y.rs:1:2\n")) == "no"


@pytest.mark.parametrize(
    "text", ["s3://b/p", "s3a://b/p/", "abfss://c@a.dfs.core.windows.net/p", "gs://b/p", "hdfs://n/p"]
)
def test_stores_of_objects_are_places(text: str) -> None:
    found = place(text)
    assert (found.local, str(found)) == (None, text.rstrip("/"))
    assert found.whole("lag", "c/p00007/x.parquet") == f"{text.rstrip('/')}/lag/c/p00007/x.parquet"
    with pytest.raises(BadInput, match="taken one of its slashes"):
        place(Path(text))


def test_folders_are_places_and_what_is_neither_is_refused(tmp_path: Path) -> None:
    assert place("a/../b") == Place(str(Path.cwd() / "b"))
    assert place(f"file://{tmp_path}") == place(tmp_path) == place(place(tmp_path))
    for text in ("ftp://h/p", "http://h/p", "wasb://c@a/p", "s4:/x"):
        with pytest.raises(BadInput, match=r"is not supported; give a folder of this machine, or s3://"):
            place(text)


def test_a_log_that_is_cut_is_said_and_not_read_as_nothing(tmp_path: Path) -> None:
    small.run(tmp_path, 1)
    (tmp_path / "lag" / "_delta_log" / f"{1:020}.json").write_bytes(b"")
    reader.forget()
    with pytest.raises(DamagedStore, match=r"table lag in .* has 0 rows at version 1, 3 were published"):
        store.read("lag", tmp_path)
    (tmp_path / "runs" / "_delta_log" / f"{1:020}.json").write_bytes(b'{"add":')
    with pytest.raises(DamagedStore, match="table runs"):
        store.published(tmp_path)


def test_a_store_that_does_not_answer_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        for name, value in {**told, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{nobody.getsockname()[1]}"}.items():
            monkeypatch.setenv(name, value)
        found = CliRunner().invoke(app, ["verify", "--tables", "s3a://bucket/tables"])
    assert found.exit_code == Exit.FAILED, found.output
    assert re.search(r"table runs in s3a://bucket/tables cannot be read: .*(error|Error).*127\.0\.0\.1", found.stderr)
    assert len(found.stderr.splitlines()) == 1
    assert "\x1b" not in found.stderr


Commit = Callable[..., int]


@pytest.mark.parametrize("told", [delta.Overtaken("runs"), StoreFailed("no answer")], ids=["exists", "no answer"])
def test_a_commit_whose_answer_was_lost_is_found(
    told: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store has made the commit, and its answer was lost: asked again by delta-rs it says that the version exists, or
    it says nothing. The run is published, and nobody is told that it is not, or that another run was faster."""
    small.run(tmp_path, 1)
    losing(monkeypatch, told, is_made=True)
    found = small.run(tmp_path, 2)
    monkeypatch.undo()
    assert (found.number, small.marks(found)) == (2, {"2"})
    assert store.published(tmp_path).number == 2
    assert small.run(tmp_path, 3).number == 3


def test_a_commit_of_which_nothing_is_known_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small.run(tmp_path, 1)
    losing(monkeypatch, StoreFailed("no answer"), is_made=False)
    with pytest.raises(FateUnknown, match=r"no answer; it is not known whether .*muster pipeline runs --tables"):
        small.run(tmp_path, 2)
    monkeypatch.undo()
    assert small.marks(store.published(tmp_path)) == {"1"}
    assert small.run(tmp_path, 3).number == 2


def losing(monkeypatch: pytest.MonkeyPatch, told: Exception, *, is_made: bool) -> None:
    """Of a commit of `runs` something else is told than what came of it."""
    commit: Commit = delta.commit

    def lost(where: Place, found: DeltaTable, table: catalog.Table, *rest: Any) -> int:
        if table.name != "runs":
            return commit(where, found, table, *rest)
        if is_made:
            commit(where, found, table, *rest)
        raise told

    monkeypatch.setattr(delta, "commit", lost)
