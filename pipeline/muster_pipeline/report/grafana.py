"""Grafana dashboards as plain JSON values: panels placed from left to right, each asking the chosen data source.

What a dashboard asks is in the files beside this one (`dashboard`: metrics; `table_dashboard`: tables). The data source
is a variable of its own, so that a file is imported or provisioned as it is, whatever the source is called there.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

SOURCE_UID: Final = "${datasource}"
SCHEMA_VERSION: Final = 39
"""Of Grafana 10.4; later ones bring it along when they import it."""
_WIDTH: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel; `queries`: (expression, legend)."""

    kind: str
    title: str
    text: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    width: int = 12
    height: int = 8
    steps: Sequence[tuple[float | None, str]] = ()
    """(from that value on, colour)."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Column of a table -> its unit, where that is another than the panel's."""
    drawn: Mapping[str, Any] = field(default_factory=dict)
    """How a time series is drawn: Grafana's `custom`."""


def text(board: Mapping[str, Any]) -> str:
    """As Grafana imports it."""
    return json.dumps(board, indent=1) + "\n"


def board(
    *, title: str, uid: str, source: str, refresh: str, variables: Iterable[dict[str, Any]], panels: Iterable[Any]
) -> dict[str, Any]:
    """A dashboard; `source`: the type of data source of which people choose one."""
    chosen = {"name": "datasource", "type": "datasource", "query": source}
    return {
        "title": title,
        "uid": uid,
        "tags": ["muster", "kafka"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "refresh": refresh,
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [chosen, *variables]},
        "panels": list(panels),
    }


def variable(name: str, query: str, source: str, all_value: str) -> dict[str, Any]:
    """One whose values are asked for; `all_value` stands in the queries for all of them, as it is."""
    return {
        "name": name, "type": "query", "datasource": {"type": source, "uid": SOURCE_UID}, "query": query, "refresh": 2,
        "includeAll": True, "multi": True, "allValue": all_value,
    }  # fmt: skip


def placed(panels: Iterable[Panel]) -> Iterator[tuple[int, Panel, dict[str, int]]]:
    """(id, panel, its place): from left to right, row by row."""
    x, y, lowest = 0, 0, 0
    for number, one in enumerate(panels, 1):
        if x + one.width > _WIDTH:
            x, y = 0, lowest
        yield number, one, {"x": x, "y": y, "w": one.width, "h": one.height}
        x, lowest = x + one.width, max(lowest, y + one.height)


def panel(
    number: int, one: Panel, place: Mapping[str, int], source: str, targets: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """One panel as JSON; `targets`: what it asks, without the letters by which they are told apart."""
    defaults: dict[str, Any] = {"unit": one.unit}
    if one.steps:
        steps = [{"value": value, "color": colour} for value, colour in one.steps]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    if one.drawn:
        defaults["custom"] = dict(one.drawn)
    overrides = [
        {"matcher": {"id": "byName", "options": column}, "properties": [{"id": "unit", "value": unit}]}
        for column, unit in one.units.items()
    ]
    asked = {"type": source, "uid": SOURCE_UID}
    return {
        "id": number,
        "type": one.kind,
        "title": one.title,
        "description": one.text,
        "datasource": asked,
        "gridPos": dict(place),
        "fieldConfig": {"defaults": defaults, "overrides": overrides},
        "targets": [
            {"refId": chr(ord("A") + letter), "datasource": asked, **target} for letter, target in enumerate(targets)
        ],
    }
