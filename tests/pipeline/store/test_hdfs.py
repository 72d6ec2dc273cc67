"""Tables in a real HDFS keep the contract of stores; and what is HDFS' own: a name node killed in a commit, commands, a
user without rights. Only in `make lake` (in the nightly)."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable
from muster_pipeline import store
from muster_pipeline.__main__ import app
from muster_pipeline.cli.exits import Exit
from muster_pipeline.store import exclusion, runs
from muster_pipeline.store.place import place
from muster_pipeline.tables.errors import FateUnknown, StoreFailed
from typer.testing import CliRunner
from typing_extensions import override

from tests.pipeline.store import hdfs, small
from tests.pipeline.store.lake_contract import WHOLE, LakeContract, built
from tests.pipeline.store.test_kills import NOW

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not WHOLE, reason="HDFS is slow to start and to write: make lake, in the nightly"),
]
MOMENTS = [(name, is_after) for name in ("commits", "lag", "runs") for is_after in (False, True)]


@pytest.fixture(scope="module")
def server(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[hdfs.Server]:
    found = hdfs.Server(tmp_path_factory.mktemp("hdfs"))
    found.start()
    yield found
    found.close()


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", hdfs.USER)


def folder_of(port: int, request: pytest.FixtureRequest) -> str:
    """A folder of its own for each test."""
    return f"hdfs://127.0.0.1:{port}/{abs(hash(request.node.nodeid)):x}/tables"


@pytest.fixture
def root(server: hdfs.Server, request: pytest.FixtureRequest) -> str:
    return folder_of(server.port, request)


class TestHdfs(LakeContract):
    @override
    def scanned(self, table: str, version: int) -> pl.LazyFrame:
        """Polars has no HDFS of its own, and takes delta-rs' through Arrow."""
        return pl.scan_pyarrow_dataset(DeltaTable(table, version=version).to_pyarrow_dataset())

    def test_commands_and_a_user_without_rights(
        self, log: Path, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        built(log, root, NOW)
        page = ["report", "--html", str(tmp_path / "page.html")]
        for arguments in (page, ["runs"], ["sql", "select count(*) from commits"], ["verify"], ["vacuum"]):
            done = CliRunner().invoke(app, [*arguments, "--tables", root])
            assert done.exit_code == Exit.OK, done.output
        before = store.published(root).number
        monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
        exclusion.forget()
        done = CliRunner().invoke(app, ["ingest", "--segments", str(log), "--tables", root, "--cluster", "c"])
        assert done.exit_code == Exit.FAILED, done.output
        assert "Permission denied: user=somebody" in done.output
        assert "at org.apache.hadoop" not in done.output
        exclusion.forget()
        assert store.published(root).number == before


@pytest.mark.parametrize(("table", "is_after"), MOMENTS)
def test_the_name_node_dies_in_a_commit_and_comes_back(
    table: str, is_after: bool, server: hdfs.Server, request: pytest.FixtureRequest, root: str
) -> None:
    """The run ends and says whether it may be published; what is readable is one run's; the next run is whole."""
    small.run(root, 1)
    with hdfs.fronted(server, f"/{table}/_delta_log/{2:020}.json", is_after=is_after) as front:
        expected = FateUnknown if table == "runs" else StoreFailed
        with pytest.raises(expected) as told:
            small.run(folder_of(front.port, request), 2)
        assert front.has_killed()
    assert "org.apache.hadoop" not in str(told.value)
    server.start()
    is_published = table == "runs" and is_after
    assert small.marks(store.published(root)) == ({"2"} if is_published else {"1"})
    small.run(root, 3)
    assert small.marks(store.published(root)) == {"3"}
    assert small.marks(store.published(root, run=1)) == {"1"}
    ledger = runs.load(place(root))
    assert ledger is not None
    marks = [one.input["mark"] for one in ledger.published()]
    assert marks == ([1, 2, 3] if is_published else [1, 3]), "each once"
