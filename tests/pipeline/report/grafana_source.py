"""Grafana's DuckDB data source, as far as it changes SQL before DuckDB sees it, and what it can show of the answer.

Written from its documents and sources (motherduckdb/grafana-duckdb-datasource at d3e6299, version 0.4.5; macros and
converters of grafana-plugin-sdk-go 0.274): in the browser `${name:sqlstring}` becomes the chosen values, quoted, or a
variable's own `allValue` as it is; in the server `$__timeFilter(x)`, `$__timeFrom()` and `$__timeTo()` become texts of
RFC 3339 in whole seconds. Nothing else of Grafana is here.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import duckdb

VARIABLE: Final = re.compile(r"\$\{(\w+):sqlstring\}")
SHOWN_AS_THEY_ARE: Final = frozenset({"VARCHAR", "BIGINT", "INTEGER", "DOUBLE", "TIMESTAMP"})
"""Types of columns; sums of 128 bits become text, decimals and lists need not arrive at all."""
Chosen = Mapping[str, Sequence[str] | None]
"""Variable -> chosen values; None: all of them."""


def variables(board: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By name."""
    return {one["name"]: one for one in board["templating"]["list"]}


def expanded(sql: str, board: Mapping[str, Any], chosen: Chosen, from_ms: int, to_ms: int) -> str:
    """As DuckDB gets it."""
    known = variables(board)

    def value(match: re.Match[str]) -> str:
        name = match[1]
        values = chosen[name]
        if values is None:
            return str(known[name]["allValue"])
        return ",".join("'" + one.replace("'", "''") + "'" for one in values)

    text = VARIABLE.sub(value, sql)
    start, end = _rfc3339(from_ms), _rfc3339(to_ms)
    while "$__timeFilter(" in text:
        before, _, rest = text.partition("$__timeFilter(")
        inside, after = _closed(rest)
        text = f"{before}{inside} >= {start} AND {inside} <= {end}{after}"
    return text.replace("$__timeFrom()", start).replace("$__timeTo()", end)


def rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    """The answer, all of whose columns the data source can show."""
    found = connection.sql(sql)
    types = {name: str(kind) for name, kind in zip(found.columns, found.types, strict=True)}
    assert len(types) == len(found.columns), "two columns of one name"
    assert set(types.values()) <= SHOWN_AS_THEY_ARE, types
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def _closed(text: str) -> tuple[str, str]:
    """What is inside a bracket that is open, and what follows it."""
    depth = 1
    for place, one in enumerate(text):
        depth += {"(": 1, ")": -1}.get(one, 0)
        if depth == 0:
            return text[:place].strip(), text[place + 1 :]
    raise AssertionError("no closing bracket")


def _rfc3339(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1_000, UTC).strftime("'%Y-%m-%dT%H:%M:%SZ'")
