"""A day of a fleet of many groups, of which those of `fleet_tables` are in trouble; and its page, with those of two
groups."""

from pathlib import Path

import pyarrow as pa
from muster_pipeline.report.group_page import build_group, render_group
from muster_pipeline.report.page import About, build, render
from muster_pipeline.report.source import InMemory
from muster_pipeline.report.whatif import Alternative, Comparison

from tests.pipeline.report.fleet_tables import START_MS, assignment, expiry_rows, fleet, lag_rows, status, table

HOUR_MS = 3_600_000
BUSY = 30
"""Groups that lag now and then."""
ABOUT = About(cluster="prod", source="a live cluster", run="3f9c2a71d0e4", version="1.0", as_of_ms=START_MS + 310_000,
              every_ms=30_000)  # fmt: skip
YOUNG = f"Date.now = () => {START_MS + 322_000};"
"""A reader's clock, 12 s after the tables were made."""
PARTS = ("orders", "billing", "search-index", "mail", "fraud", "ledger", "stock", "clicks")


def name(number: int) -> str:
    return f"{PARTS[number % len(PARTS)]}-{number:05}"


def large(count: int) -> InMemory:
    """`count` groups more than `fleet()` has."""
    tables = fleet()
    names = [name(number) for number in range(count)]
    lag = [lag_rows(one, [0])[0] for one in names]
    for number, one in enumerate(names[:BUSY]):
        for hour in range(-22, 1):
            wave = max(0, (hour * 7 + number * 5) % 23 - 14) ** 4
            at = START_MS + HOUR_MS * hour
            lag.append({**lag_rows(one, [wave])[0], "minute_ms": at, "at_ms": at})
    for hour in range(-6, 0):
        at = START_MS + HOUR_MS * hour
        lag += [
            {**lag_rows(one, [value])[0], "minute_ms": at, "at_ms": at} for one, value in (("slow", 0), ("stuck", 4))
        ]
    places = [{"group_id": one, "topic": "orders", "partition": 0} for one in (*names, "stuck")]
    assigned = [assignment("slow", 7, f"m-{n % 2 + 1}", n) | {"append_timestamp_ms": START_MS} for n in range(3)]
    more = {
        "partition_status": table("partition_status", [status(one, "OK", lag=0) for one in names]),
        "lag": table("lag", lag),
        "expiry": table("expiry", expiry_rows(places)),
        "assignments": table("assignments", assigned),
    }
    for kind, rows in more.items():
        tables._tables[kind] = pa.concat_tables([rows, tables._tables[kind]])
    return tables


def pages(folder: Path, count: int) -> Path:
    """index.html, and a page for `slow` and `stuck`, as `report --pages` makes them."""
    tables = large(count)
    other = Alternative(assignor="cooperative-sticky", rebalances=4, partitions_moved=3, balance_score=1.5,
                        paused_partitions=2.0)  # fmt: skip
    report = build(ABOUT, tables, [Comparison(group="slow", alternatives=(other,))])
    links = {}
    (folder / "groups").mkdir(parents=True)
    for one in ("slow", "stuck"):
        made = build_group(ABOUT, tables, one)
        assert made is not None
        links[one] = f"groups/{one}.html"
        (folder / links[one]).write_text(render_group(made, home="../index.html"))
    path = folder / "index.html"
    path.write_text(render(report, links))
    return path
