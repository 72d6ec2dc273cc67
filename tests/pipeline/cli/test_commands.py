"""`muster pipeline …` without Spark: plans, reports, checks, exit codes, and sentences that say what to do."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from muster_pipeline import store
from muster_pipeline.__main__ import app
from muster_pipeline.cli.causes import cause
from muster_pipeline.cli.exits import Exit, worker_error
from muster_pipeline.cli.reporting import status_name
from muster_pipeline.cli.running import absent
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.transforms.settings import FoldSettings
from typer.testing import CliRunner, Result

from tests.pipeline.store import logfolder


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    logfolder.make(folder)
    return folder


@pytest.fixture(scope="module")
def tables(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    build(None, SegmentInput.listed(str(log), "c"), root, FoldSettings(cluster="c"))
    return root


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_the_command_needs_nothing_heavy_until_it_runs() -> None:
    program = (
        "import sys; from importlib.metadata import entry_points\n"
        "(found,) = [one for one in entry_points(group='muster.commands') if one.name == 'pipeline']\n"
        "found.load()\n"
        "print(sorted({'pyspark', 'py4j', 'pyarrow', 'numpy', 'pandas', 'kafka', 'jinja2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_package_is_named_with_what_to_install(tables: Path) -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from muster_pipeline.__main__ import app\n"
        f"app(['verify', '--tables', {str(tables)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == Exit.USAGE
    assert "pyarrow" in done.stderr
    assert "pip install 'muster[pipeline]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dry_run_tells_what_would_be_read_and_does_nothing(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("ingest", "--segments", log, "--tables", out, "--cluster", "c", "--dry-run")
    found = run(*arguments)
    size = sum(path.stat().st_size for path in log.rglob("*.log"))
    assert found.exit_code == 0, found.output
    assert f"would read 3 log partitions: 5 files, {size:,} bytes" in found.stdout
    rows = json.loads(run(*arguments, "--json").stdout)
    assert [(row["log_partition"], row["files"]) for row in rows] == [(0, 2), (7, 2), (23, 1)]
    assert sum(row["bytes"] for row in rows) == size
    assert not out.exists()


def test_gold_plans_from_published_records(tables: Path, tmp_path: Path) -> None:
    assert "would read 3 log partitions" in run("gold", "--tables", tables, "--dry-run").stdout
    other = run("gold", "--tables", tables, "--cluster", "d", "--dry-run")
    assert (other.exit_code, "nothing is published of cluster d" in other.stderr) == (Exit.USAGE, True)
    assert run("gold", "--tables", tmp_path, "--dry-run").exit_code == Exit.USAGE


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give --segments or --bootstrap"),
        (("--segments", "x", "--bootstrap", "h:1"), "give one of --segments and --bootstrap"),
        (("--segments", "x", "--log-end-offsets", "live"), "--log-end-offsets live needs --bootstrap"),
        (("--segments", "x", "--heads", "live"), "--log-end-offsets live needs --bootstrap"),
        (("--segments", "x", "--heads", "a", "--log-end-offsets", "a"), "give --log-end-offsets without --heads"),
        (("--segments", "/nowhere/at/all"), "is no folder"),
        (("--segments", "{log}/.."), "no folder __consumer_offsets-N"),
        (("--segments", "{log}", "--conf", "spark.x"), "--conf takes name=value"),
        (
            ("--segments", "{log}", "--log-end-offsets", "{log}/nothing.parquet"),
            "is no file of log end offsets",
        ),
        (("--segments", "{log}", "--stall-min-ms", "0"), "--help"),
    ],
)
def test_what_cannot_be_used_is_exit_code_2(arguments: tuple[str, ...], said: str, log: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty" / "below"
    empty.mkdir(parents=True)
    base = str(empty) if any(one.endswith("/..") for one in arguments) else str(log)
    given = [one.format(log=base) for one in arguments]
    found = run("ingest", "--tables", tmp_path / "out", "--cluster", "c", *given)
    assert found.exit_code == Exit.USAGE, found.output
    assert said in re.sub(r"[\s│]+", " ", found.stderr)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("ingest", Exit.USAGE, "is no file of log end offsets"),
        ("gold", Exit.USAGE, "is no file of log end offsets"),
        ("stream", Exit.USAGE, "is no file of log end offsets"),
    ],
)
def test_the_old_option_does_the_same_with_a_notice(
    command: str, code: Exit, said: str, log: Path, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "ingest": ("--segments", log, "--tables", tmp_path / "out", "--cluster", "c"),
        "stream": ("--bootstrap", "127.0.0.1:1", "--tables", tmp_path / "out", "--cluster", "c"),
        "gold": ("--tables", tables),
    }[command]
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    notice = "--heads is called --log-end-offsets now; the old name goes with the next release\n"
    nothing = tmp_path / "nothing.parquet"
    old = run(command, *given, "--heads", nothing)
    new = run(command, *given, "--log-end-offsets", nothing)
    assert said in new.stderr
    assert (old.exit_code, old.stdout, old.stderr) == (code, new.stdout, notice + new.stderr)
    assert notice not in new.stderr
    assert "--heads" not in run(command, "--help").stdout


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize("command", ["ingest", "gold", "stream"])
def test_without_a_java_that_will_do_the_sentence_says_what_to_install(
    command: str, log: Path, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {
        "ingest": ("--segments", log, "--tables", tmp_path / "out", "--cluster", "c"),
        "gold": ("--tables", tables),
        "stream": ("--bootstrap", "127.0.0.1:1", "--tables", tmp_path / "out", "--cluster", "c"),
    }[command]
    for home, said in ((tmp_path / "none", "has no bin/java"), (fake_java(tmp_path / "old", "11.0.2"), "is Java 11")):
        monkeypatch.setenv("JAVA_HOME", str(home))
        found = run(command, *arguments)
        assert found.exit_code == Exit.NO_SPARK
        assert said in found.stderr
        assert "apt install openjdk-17-jre-headless" in found.stderr


def test_verify_tells_every_invariant_and_ends_with_4_when_one_is_broken(tables: Path, tmp_path: Path) -> None:
    found = run("verify", "--tables", tables, "--same-as", tables, "--stream-of", tables)
    assert found.exit_code == 0, found.output
    assert [line.split()[:2] for line in found.stdout.splitlines()] == [
        [name, "ok:"] for name in ("I3", "I1", "I2", "I5", "I6", "I3", "I4")
    ]
    shutil.copytree(tables, tmp_path, dirs_exist_ok=True)
    path = Path(store.files("commits", tmp_path)[0])
    path.write_bytes(path.read_bytes()[:-1])
    broken = run("verify", "--tables", tmp_path)
    assert broken.exit_code == Exit.BROKEN
    assert "I3 BROKEN at 1 places" in broken.stdout
    assert "broken: I3" in broken.stderr


def test_a_report_is_three_kinds_of_files_and_the_same_again(tables: Path, tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        out = tmp_path / name
        files = ("--html", out / "r.html", "--prometheus", out / "m.prom", "--status-dir", out / "s")
        done = run("report", "--tables", tables, *files)
        assert done.exit_code == 0, done.output
        found.append({str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()})
    assert found[0] == found[1]
    groups = set(store.read("commits", tables)["group_id"].to_pylist())
    documents = {
        json.loads(data)["group"]: json.loads(data) for name, data in found[0].items() if name.startswith("s/")
    }
    assert set(documents) == groups
    assert documents["orders"]["lastRebalance"]["generation"] == 3
    page = found[0]["r.html"].decode()
    assert "5 segment files" in page
    assert "cooperative-sticky" in page, "what-if is on the page"
    assert b"kafka_consumergroup_group_sum_lag" in found[0]["m.prom"]


def test_a_report_needs_tables_and_something_to_write(tables: Path, tmp_path: Path) -> None:
    assert run("report", "--tables", tables).exit_code == Exit.USAGE
    nothing = run("report", "--tables", tmp_path, "--html", tmp_path / "r.html")
    assert (nothing.exit_code, "nothing is published" in nothing.stderr) == (Exit.USAGE, True)
    assert list(tmp_path.iterdir()) == []


def test_whatif_puts_assignors_side_by_side(tables: Path) -> None:
    rows = json.loads(run("whatif", "--tables", tables, "--json").stdout)
    names = ["recorded", "range", "roundrobin", "sticky", "cooperative-sticky"]
    assert [(row["group_id"], row["assignor"]) for row in rows] == [("orders", name) for name in names]
    chosen = run("whatif", "--tables", tables, "--group", "orders", "--assignor", "sticky", "--json")
    assert [row["assignor"] for row in json.loads(chosen.stdout)] == ["recorded", "sticky"]
    assert "cooperative-sticky" in run("whatif", "--tables", tables).stdout
    unknown = run("whatif", "--tables", tables, "--assignor", "best")
    assert (unknown.exit_code, "unknown assignor best" in unknown.stderr) == (Exit.USAGE, True)


def test_pages_of_groups_are_linked_and_one_can_be_had_alone(tables: Path, tmp_path: Path) -> None:
    done = run("report", "--tables", tables, "--pages", tmp_path / "site")
    assert done.exit_code == 0, done.output
    index = (tmp_path / "site" / "index.html").read_text()
    files = sorted((tmp_path / "site" / "groups").iterdir())
    assert f"{len(files)} groups have pages" in done.stderr
    assert len(files) >= 2
    for file in files:
        assert f'href="groups/{quote(file.name)}"' in index
        assert 'href="../index.html"' in file.read_text()
    alone = tmp_path / "orders.html"
    assert run("report", "--tables", tables, "--group", "orders", "--html", alone).exit_code == 0
    assert "<title>orders of c</title>" in alone.read_text()
    assert "../index.html" not in alone.read_text()
    for arguments, said in (
        (("--group", "nobody", "--html", alone), "no table knows group 'nobody'"),
        (("--group", "orders"), "--group goes with --html"),
        (("--group", "orders", "--html", alone, "--pages", tmp_path), "nothing else to write"),
    ):
        refused = run("report", "--tables", tables, *arguments)
        assert (refused.exit_code, said in refused.stderr) == (Exit.USAGE, True), refused.output


def test_explain_tells_a_group_at_a_time_and_what_proves_it(tables: Path) -> None:
    told = run("explain", "orders", "--tables", tables)
    assert told.exit_code == 0, told.output
    assert "group orders had committed offsets on" in told.stdout
    assert "So: unknown; there are too few samples" in told.stdout
    document = json.loads(run("explain", "orders", "--tables", tables, "--json").stdout)
    assert (document["cause"], document["lag"]) == ("unknown", None)
    for arguments, said in (
        (("nobody",), "no committed offset of group 'nobody' is known"),
        (("orders", "--at", "1999-01-01"), "is known up to 1999-01-01"),
        (("orders", "--at", "soon"), "--at takes an ISO time"),
    ):
        refused = run("explain", *arguments, "--tables", tables)
        assert (refused.exit_code, said in refused.stderr) == (Exit.USAGE, True), refused.output


@pytest.mark.parametrize("name", ["", ".", "..", "../../etc/passwd", "a/b", "gr üp:код", "x" * 300, "é" * 300, "%2E"])
def test_no_group_name_leaves_the_folder(name: str) -> None:
    file = status_name(name)
    assert "/" not in file
    assert file not in (".json", "..json")
    assert len(file.encode()) <= 255


def test_group_names_do_not_meet_in_one_file() -> None:
    names = ["", "%", ".", "%2E", "a", "A", "x" * 300, "x" * 301, "a/b", "a%2Fb"]
    assert len({status_name(name) for name in names}) == len(names)


def test_a_workers_error_is_one_line() -> None:
    text = (
        'Job aborted: \nTraceback (most recent call last):\n  File "x.py", line 3, in f\n    raise\n'
        "muster_pipeline.sources.errors.LogChanged: a.log is gone since it was listed\n\n\tat org.apache.spark.X\n"
    )
    assert worker_error(text) == "muster_pipeline.sources.errors.LogChanged: a.log is gone since it was listed"
    dead = (
        "An error occurred while calling o86.getResult.\n: org.apache.spark.SparkException: Exception thrown\n\tat a\n"
        "Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 "
        "times, most recent failure: Lost task 0.0 (TID 0) (h executor driver): org.apache.spark.SparkException: Pyth"
        "on worker exited unexpectedly (crashed). Consider setting 'x'.\n\tat c.D\n"
    )
    assert worker_error(dead) == "Python worker exited unexpectedly (crashed). Consider setting 'x'."
    assert worker_error("no such thing\n\n") == "no such thing"


def test_log_partitions_that_a_folder_lacks_are_named(log: Path) -> None:
    told = absent(SegmentInput.listed(str(log), "c"))
    assert told is not None
    assert told.startswith(
        "log partitions 1, 2, 3, 4, 5, 6, 8, 9, 10, 11 and 37 more of 0 to 49 are not in this folder"
    )
    assert absent(SegmentInput(cluster="c", segments=dict.fromkeys(range(50), ()))) is None
    assert absent(SegmentInput(cluster="c", segments=dict.fromkeys(range(60), ()))) is None


def in_a_worker(last: str) -> str:
    head = 'Job aborted: \nTraceback (most recent call last):\n  File "x.py", line 3, in f\n    raise\n'
    return f"{head}{last}\n\n\tat o.a\n"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (
            in_a_worker("muster_pipeline.tables.errors.LimitReached: more than KEYS_MAX = 4194304 group partitions"),
            Exit.USAGE,
            "^more than KEYS_MAX",
        ),
        (in_a_worker("muster_pipeline.sources.errors.LogChanged: a.log is gone"), Exit.FAILED, "^a.log is gone$"),
        (
            in_a_worker("ModuleNotFoundError: No module named 'muster_pipeline.job'"),
            Exit.USAGE,
            "executors do not have the package muster_pipeline: pip install .* over the zip of `make pipeline-archive`",
        ),
        (
            in_a_worker("ModuleNotFoundError: No module named 'deltalake'"),
            Exit.USAGE,
            "executors do not have the package deltalake: pip install .* or hand over an environment .* --archives",
        ),
        (
            in_a_worker("PermissionError: [Errno 13] Permission denied: '/logs/__consumer_offsets-3/0.log'"),
            Exit.FAILED,
            "may not use /logs/__consumer_offsets-3/0.log: give the user",
        ),
        (
            in_a_worker("FileNotFoundError: [Errno 2] No such file or directory: '/tables/data/x'"),
            Exit.FAILED,
            "does not find /tables/data/x: .* every executor sees",
        ),
        (
            "Caused by: Job aborted due to stage failure: Exception: Python worker exited unexpectedly (crashed).\n",
            Exit.FAILED,
            "an executor died: .*memoryOverhead.* run it again",
        ),
        (in_a_worker("AssertionError: I1 broken for x"), Exit.BROKEN, "I1 broken"),
        ("nobody knows this\n", Exit.FAILED, "^a task failed: nobody knows this$"),
    ],
)
def test_a_failed_task_is_a_sentence_with_its_cure(text: str, code: Exit, words: str) -> None:
    found, sentence = cause(text)
    assert found == code
    assert re.search(words, sentence), sentence
    assert "Traceback" not in sentence


def test_a_stream_refuses_samples_that_it_cannot_read_before_it_starts_spark(tmp_path: Path) -> None:
    """It took ten seconds to say so, and said where Java was missing that Java was missing."""
    given = ("--bootstrap", "127.0.0.1:1", "--log-end-offsets", tmp_path / "nothing.parquet")
    found = run("stream", "--tables", tmp_path / "out", "--cluster", "c", *given)
    assert found.exit_code == Exit.USAGE, found.output
    assert "is no file of log end offsets" in re.sub(r"[\s│]+", " ", found.stderr)
    assert "Spark" not in found.stderr
    assert not (tmp_path / "out").exists()
