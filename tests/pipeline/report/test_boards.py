"""The dashboards as Grafana's importer wants them, and every name in their SQL as docs/tables.md has it."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import pytest
from muster_pipeline.report import dashboard, table_dashboard

from tests.pipeline.report.grafana_source import VARIABLE, expanded, variables

DOCUMENTED = Path(__file__).resolve().parents[3] / "docs" / "tables.md"
TYPES = {
    "string": "VARCHAR", "bool": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER",
    "int64": "BIGINT", "double": "DOUBLE", "binary": "BLOB", "list of string": "VARCHAR[]",
}  # fmt: skip
MACROS = {"__timeFilter", "__timeFrom", "__timeTo"}
"""Of the data source, as its documents have them."""
BOARDS = [json.loads(one.text()) for one in (dashboard, table_dashboard)]
BOARD = BOARDS[1]
ALL = {"cluster": None, "group": None, "old_after_s": ["3600"]}
QUERIES = {one["title"]: target["rawSql"] for one in BOARD["panels"] for target in one["targets"]} | {
    one["name"]: one["query"] for one in BOARD["templating"]["list"] if one["type"] == "query"
}


def documented(without: tuple[str, str] | None = None) -> duckdb.DuckDBPyConnection:
    """Empty tables with the columns of the page, but for one."""
    found = duckdb.connect(config={"autoload_known_extensions": False})
    for part in DOCUMENTED.read_text().split("\n## ")[1:]:
        name = re.match(r"`(\w+)` \(", part)
        if name is not None:
            columns = re.findall(r"^\| `(\w+)` \| ([^|?]+?)\?? \|", part, re.MULTILINE)
            kept = [f'"{one}" {TYPES[kind]}' for one, kind in columns if (name[1], one) != without]
            found.execute(f"CREATE TABLE {name[1]} ({', '.join(kept)})")
    return found


@pytest.mark.parametrize("board", BOARDS, ids=lambda one: one["uid"])
def test_a_board_is_what_grafana_imports(board: dict[str, Any]) -> None:
    panels = board["panels"]
    assert isinstance(board["schemaVersion"], int)
    assert board["title"]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", board["uid"]), "Grafana's rule"
    assert [one["id"] for one in panels] == list(range(1, len(panels) + 1))
    assert len({one["title"] for one in panels}) == len(panels)
    assert {one["type"] for one in panels} <= {"stat", "table", "timeseries"}
    assert all(one["gridPos"]["x"] >= 0 and one["gridPos"]["x"] + one["gridPos"]["w"] <= 24 for one in panels)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)


@pytest.mark.parametrize("board", BOARDS, ids=lambda one: one["uid"])
def test_all_of_a_board_asks_the_data_source_that_is_chosen(board: dict[str, Any]) -> None:
    source, *others = board["templating"]["list"]
    assert (source["name"], source["type"]) == ("datasource", "datasource")
    wanted = {"type": source["query"], "uid": "${datasource}"}
    assert all(one["datasource"] == wanted for one in others if one["type"] == "query")
    for panel in board["panels"]:
        assert panel["datasource"] == wanted
        assert panel["targets"]
        assert all(one["datasource"] == wanted for one in panel["targets"])
        letters = [one["refId"] for one in panel["targets"]]
        assert len(set(letters)) == len(letters)


def test_the_boards_are_not_mistaken_for_each_other() -> None:
    for name in ("uid", "title"):
        assert BOARDS[0][name] != BOARDS[1][name]


def test_series_are_asked_for_as_series_and_rows_as_rows() -> None:
    for panel in BOARD["panels"]:
        (target,) = panel["targets"]
        assert target["format"] == (0 if panel["type"] == "timeseries" else 1), "the source's numbers for the two"
        if panel["type"] == "timeseries":
            connection = documented()
            columns = connection.sql(expanded(target["rawSql"], BOARD, ALL, 0, 0))
            kinds = [str(one) for one in columns.types]
            assert (columns.columns[0], kinds[0]) == ("time", "TIMESTAMP")
            assert kinds[1:-1] == ["VARCHAR"] * (len(kinds) - 2), "labels, then one value"
            labels = re.findall(r"\$\{__field\.labels\.(\w+)\}", panel["fieldConfig"]["defaults"]["displayName"])
            assert labels == columns.columns[1:-1]


@pytest.mark.parametrize("name", QUERIES)
def test_every_name_in_a_query_is_documented_or_declared(name: str) -> None:
    query = QUERIES[name]
    assert set(re.findall(r"\$(__\w+)", query)) <= MACROS
    declared = list(variables(BOARD))
    used = set(VARIABLE.findall(query))
    assert used <= set(declared[: declared.index(name)] if name in declared else declared), "chosen before it is used"
    assert re.sub(r"\$\{\w+:sqlstring\}|\$__\w+", "", query).count("$") == query.count("'$."), "no other form"
    connection = documented()
    connection.sql(expanded(query, BOARD, ALL, 0, 0)).fetchall()


def test_a_name_that_is_not_documented_would_be_found() -> None:
    without = documented(("partition_status", "lost_in_ms"))
    broken = set()
    for name, query in QUERIES.items():
        try:
            without.sql(expanded(query, BOARD, ALL, 0, 0))
        except duckdb.BinderException as error:
            assert "lost_in_ms" in str(error)
            broken.add(name)
    assert broken == {"Groups now", "Partitions in trouble", "Records will be lost in"}


def test_the_export_has_every_table_that_is_asked_and_no_other() -> None:
    connection = duckdb.connect(config={"autoload_known_extensions": False})
    asked: set[str] = set()
    for query in QUERIES.values():
        (tree,) = connection.execute("SELECT json_serialize_sql(?)", [expanded(query, BOARD, ALL, 0, 0)]).fetchall()[0]
        text = json.dumps(json.loads(tree))
        own = set(re.findall(r'"key": "(\w+)", "value": \{', text))
        asked |= set(re.findall(r'"table_name": "(\w+)"', text)) - own
    known = {name for (name,) in documented().execute("SELECT table_name FROM information_schema.tables").fetchall()}
    assert asked & known == {*table_dashboard.TABLES, "runs"}
