"""All groups of a fleet in few bytes, for the page's own search: the tables show the most troubled ones only."""

import json
from collections.abc import Mapping
from typing import Final

from muster_pipeline.report.fleet import FleetRow
from muster_pipeline.report.troubles import Troubles

WORST_FIRST: Final = ("ERR", "WARN", "UNKNOWN", "OK", "ABANDONED", "DELETED")


def groups_json(rows: list[FleetRow], troubles: Troubles, links: Mapping[str, str]) -> str:
    """[[name, status, records behind or null, members or null, address or null], ...], worst first; safe within a
    `script` element, whatever clients called their groups."""
    told = sorted(
        ((status_of(row, troubles), row) for row in rows),
        key=lambda one: (WORST_FIRST.index(one[0]), -(one[1].lag or 0), one[1].group),
    )
    found = [[row.group, status, row.lag, row.members, links.get(row.group)] for status, row in told]
    text = json.dumps(found, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def status_of(row: FleetRow, troubles: Troubles) -> str:
    """One of WORST_FIRST."""
    trouble = troubles.groups.get(row.group)
    if trouble is not None:
        return trouble.status
    return "UNKNOWN" if row.left is None else "DELETED"
