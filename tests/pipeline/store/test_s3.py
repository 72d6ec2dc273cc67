"""Tables behind a real S3 API keep the contract of stores; and what is S3's own: a server killed in a commit, a store
that excludes nobody, credentials.

The server is versitygw (`s3`), which keeps objects on disk and decides `If-None-Match` under a lock. In `make test` few
kills and runs are made; MUSTER_LAKE=whole (`make lake`) makes them all.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from muster_pipeline import store
from muster_pipeline.__main__ import app
from muster_pipeline.cli.exits import Exit
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.store import exclusion, runs
from muster_pipeline.store.place import place
from pyarrow import fs
from typer.testing import CliRunner

from tests.pipeline.store import logfolder, s3, small
from tests.pipeline.store.lake_contract import WHOLE, LakeContract, built, published_bytes
from tests.pipeline.store.test_kills import NOW

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900)]
MOMENTS = [(name, is_after) for name in ("commits", "lag", "runs") for is_after in (False, True)]
CUTS = MOMENTS if WHOLE else [("runs", True)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.Server]:
    found = s3.Server(tmp_path_factory.mktemp("s3"))
    found.start()
    yield found
    found.close()


@pytest.fixture(autouse=True)
def _store(server: s3.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, server.port)


def use(monkeypatch: pytest.MonkeyPatch, port: int, **changed: str) -> None:
    for name, value in s3.environment(port, **changed).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def root(request: pytest.FixtureRequest) -> str:
    """A folder of its own for each test."""
    return f"s3a://{s3.BUCKET}/{abs(hash(request.node.nodeid)):x}/tables"


class TestS3(LakeContract):
    secret: ClassVar[str] = s3.SECRET_KEY

    def test_a_store_that_excludes_nobody_is_refused(
        self, log: Path, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The server's own answers, without the header that would let one of two writers fail."""
        exclusion.forget()
        with s3.fronted(tmp_path, s3.Fault(left_out="if-none-match")) as port:
            use(monkeypatch, port, AWS_SKIP_SIGNATURE="true")
            arguments = ["ingest", "--segments", str(log), "--tables", root, "--cluster", "c"]
            done = CliRunner().invoke(app, arguments)
            assert done.exit_code == Exit.USAGE, done.output
            assert "this store lets two writers make the same version of a table" in done.output
            assert "starting Spark" not in done.output
        asked = s3.puts(tmp_path)
        assert asked, "it was tried"
        assert all(exclusion.PROBE in path for path in asked), "and nothing else written"
        exclusion.forget()

    def test_no_credential_is_told(
        self, log: Path, server: s3.Server, root: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        built(log, root, NOW)
        told = [
            path for path in server.root.rglob("*") if path.is_file() and s3.SECRET_KEY.encode() in path.read_bytes()
        ]
        assert told == [], "neither in tables nor in logs of tables"
        wrong = "wrong-secret-77aa"
        use(monkeypatch, server.port, AWS_SECRET_ACCESS_KEY=wrong)
        exclusion.forget()
        for arguments in (["report"], ["ingest", "--segments", str(log), "--cluster", "c"], ["runs"], ["vacuum"]):
            done = CliRunner().invoke(app, [*arguments, "--tables", root])
            assert done.exit_code == Exit.FAILED, done.output
            assert wrong not in done.output
            assert s3.ACCESS_KEY not in done.output or "AccessKeyId" in done.output
            assert len(done.output) < 1_000
        exclusion.forget()


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_the_log_is_in_the_store_too(scheme: str, root: str, tmp_path: Path) -> None:
    """By either of the names that tables go by: it gives the bytes of the log in a folder."""
    log = tmp_path / "log"
    logfolder.make(log)
    built(log, str(tmp_path / "plain"), NOW)
    inside = root.removeprefix("s3a://").removesuffix("tables") + "log"
    system, _ = fs.FileSystem.from_uri(f"s3://{inside}")
    fs.copy_files(str(log), inside, destination_filesystem=system)
    build(None, SegmentInput.listed(f"{scheme}://{inside}", "c"), root, NOW)
    assert published_bytes(store.published(root)) == published_bytes(store.published(tmp_path / "plain"))


@pytest.mark.parametrize(("table", "is_after"), CUTS)
def test_the_server_dies_in_a_commit_and_comes_back(
    table: str, is_after: bool, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after it has stored the commit and before it says so: the driver asks again, is told that the version
    exists, and must find out that it is its own."""
    entry = f"/{table}/_delta_log/{1:020}.json" if table != "runs" else f"/{table}/_delta_log/{2:020}.json"
    with s3.fronted(tmp_path, s3.Fault(killed_at=entry, is_after=is_after)) as port:
        use(monkeypatch, port)
        assert small.run(root, 1).number == 1
        assert small.run(root, 2).number == 2
        assert len([path for path in s3.puts(tmp_path) if entry in path]) >= 2, "it was asked again"
        assert small.marks(store.published(root)) == {"2"}
        assert small.marks(store.published(root, run=1)) == {"1"}
        ledger = runs.load(place(root))
    assert ledger is not None
    assert [one.run for one in ledger.published()] == [1, 2], "each once"
