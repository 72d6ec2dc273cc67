"""`muster pipeline sql`: rows of one run by DuckDB, which may read nothing else; what it refuses is a sentence."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from muster_pipeline.__main__ import app
from muster_pipeline.cli import querying
from muster_pipeline.cli.exits import Exit
from muster_pipeline.cli.querying import INSTALL, ROWS_SHOWN_MAX
from typer.testing import CliRunner, Result

from tests.pipeline.store import small

BOTH = "SELECT DISTINCT c.group_id AS c, l.group_id AS l FROM commits c, lag l"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of cluster c, marked 1 and 2, and one of d, marked 3."""
    root = tmp_path_factory.mktemp("tables")
    small.run(root, 1)
    small.run(root, 2)
    small.run(root, 3, cluster="d")
    return root


def ask(tables: Path, statement: str, *options: str, given: str | None = None) -> Result:
    where = ("--tables", str(tables), *(options if "--cluster" in options else ("--cluster", "c", *options)))
    return CliRunner().invoke(app, ["sql", statement, *where], input=given)


def rows(tables: Path, statement: str, *options: str) -> list[dict[str, object]]:
    found = ask(tables, statement, "--format", "json", *options)
    assert found.exit_code == 0, found.output
    made: list[dict[str, object]] = json.loads(found.stdout)
    return made


def test_all_tables_are_those_of_one_run_and_one_cluster(tables: Path) -> None:
    assert rows(tables, BOTH) == [{"c": "2", "l": "2"}]
    assert rows(tables, BOTH, "--run", "1") == [{"c": "1", "l": "1"}], "an earlier run, in every table"
    assert rows(tables, BOTH, "--cluster", "d") == [{"c": "3", "l": "3"}]
    assert [one["name"] for one in rows(tables, "SHOW TABLES")] == ["commits", "lag"]
    which = CliRunner().invoke(app, ["sql", "SELECT 1", "--tables", str(tables)])
    assert (which.exit_code, "name one with --cluster" in which.stderr) == (Exit.USAGE, True)


def test_a_table_without_rows_has_its_columns_and_old_names_still_go(tmp_path: Path) -> None:
    where = small.place(tmp_path)
    publication = small.publication(where, None, "c", 1)
    small.publish(publication, {"log_end_offsets": (), "lag": ()})
    assert rows(tmp_path, "SELECT count(*) AS n, max(end_offset) AS e FROM heads") == [{"n": 0, "e": None}]
    assert ask(tmp_path, "SELECT lag FROM lag", "--format", "json").stdout == "[]\n"
    assert ask(tmp_path, "SELECT lag, topic FROM lag", "--format", "csv").stdout == "lag,topic\n"


VALUES = (
    "SELECT sum(7::BIGINT) AS whole, 1.25::DECIMAL(5,2) AS part, 'nan'::DOUBLE AS nothing, NULL::INT AS void, "
    "true AS yes, epoch_ms(1750000000123) AS at, [1, 2] AS many, {'a': 'ü,\"'} AS pair, '\\xFF\\x00'::BLOB AS raw, "
    "9223372036854775807 AS most, 1 AS twice, 2 AS twice"
)


def test_values_of_every_kind_as_json_and_csv(tables: Path) -> None:
    (found,) = rows(tables, VALUES)
    assert found == {
        "whole": 7, "part": 1.25, "nothing": None, "void": None, "yes": True, "at": "2025-06-15T15:06:40.123000",
        "many": [1, 2], "pair": {"a": 'ü,"'}, "raw": "/wA=", "most": (1 << 63) - 1, "twice": 1, "twice_2": 2,
    }  # fmt: skip
    head, line = csv.reader(io.StringIO(ask(tables, VALUES, "--format", "csv").stdout))
    assert head == list(found)
    assert line == [
        *(
            "7",
            "1.25",
            "",
            "",
            "true",
            "2025-06-15T15:06:40.123000",
            "[1, 2]",
            '{"a": "ü,\\""}',
            "/wA=",
            str((1 << 63) - 1),
        ),
        *("1", "2"),
    ]


def test_a_table_is_for_people_and_says_what_it_leaves_out(tables: Path) -> None:
    few = ask(tables, "SELECT group_id, minute_ms, lag FROM lag LIMIT 1")
    assert few.stdout.split() == ["group_id", "minute_ms", "lag", "2", "2", "null"]
    many = ask(tables, f"SELECT range AS n FROM range({ROWS_SHOWN_MAX + 3})")
    assert len(many.stdout.splitlines()) == ROWS_SHOWN_MAX + 1
    assert many.stderr == "3 more rows: add LIMIT, or print all with --format csv or json\n"


def test_a_statement_comes_from_standard_input_too(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(tables, "-", "--format", "csv", given="SELECT 1 AS one;\n").stdout == "one\n1\n"
    monkeypatch.setattr(querying, "STATEMENT_CHARACTERS_MAX", 10)
    assert ask(tables, "-", "--format", "csv", given="SELECT 1  ").exit_code == 0
    long = ask(tables, "-", given="SELECT 1   ")
    assert (long.exit_code, long.stderr) == (Exit.USAGE, "a statement of more than 10 characters\n")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELEC 1", 'Parser Error: syntax error at or near "SELEC"'),
        ("SELECT * FROM lags", "Table with name lags does not exist!"),
        ("SELECT * FROM lags", "(the tables of run 2: commits, lag)"),
        ("SELECT l.nope FROM lag l", 'does not have a column named "nope"'),
        ("SELECT * FROM lag WHERE lag = 'q'", "Could not convert string 'q'"),
        ("SELECT 1; SELECT 2", "one statement at a time, not 2"),
        ("", "one statement at a time, not 0"),
        ("INSERT INTO lag SELECT * FROM lag", "INSERT is no question"),
        ("CREATE TABLE t AS SELECT 1", "CREATE is no question"),
        ("COPY lag TO 'out.csv'", "COPY is no question"),
        ("ATTACH 'out.db'", "ATTACH is no question"),
        ("SET enable_external_access = true", "SET is no question"),
        ("INSTALL httpfs", "LOAD is no question"),
        ("EXPORT DATABASE 'out'", "EXPORT is no question"),
        ("SELECT * FROM read_csv('/etc/passwd')", "file system operations are disabled"),
        ("SELECT * FROM '/etc/passwd'", "/etc/passwd"),
        ("SELECT * FROM read_text('https://127.0.0.1:1/x')", "file system operations are disabled"),
        ("SELECT * FROM glob('/etc/*')", "file system operations are disabled"),
        ("SELECT * FROM tables", "Table with name tables does not exist!"),
    ],
)
def test_what_is_no_question_about_the_tables_is_refused_in_a_sentence(
    statement: str, said: str, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = ask(tables, statement)
    assert found.exit_code == Exit.USAGE, found.output
    assert said in found.stderr
    assert found.stderr.count("\n") == 1, "one sentence, without the statement"
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_what_outgrows_its_memory_fails_and_spills_nowhere(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(querying.CONFIGURATION, "memory_limit", "16MB")
    found = ask(tables, "SELECT count(*) FROM (SELECT DISTINCT hash(range) FROM range(3000000))")
    assert found.exit_code == Exit.FAILED, found.output
    assert found.stderr.startswith("the statement failed: Out of Memory Error")
    assert list(tmp_path.iterdir()) == []


def test_damage_is_told_before_the_statement_runs(tmp_path: Path) -> None:
    from muster_pipeline import store

    small.run(tmp_path, 1)
    Path(store.files("lag", tmp_path)[0]).unlink()
    found = ask(tmp_path, "SELECT 1")
    assert (found.exit_code, "the file is gone" in found.stderr) == (Exit.USAGE, True)


def test_without_duckdb_the_sentence_says_which_extra(tables: Path) -> None:
    program = (
        "import sys; sys.modules['duckdb'] = None\n"
        "from muster_pipeline.__main__ import app\n"
        f"app(['sql', 'SELECT 1', '--cluster', 'c', '--tables', {str(tables)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (Exit.USAGE, "")
    assert done.stderr == f"muster pipeline sql needs the package duckdb, which is not installed: {INSTALL}\n"
