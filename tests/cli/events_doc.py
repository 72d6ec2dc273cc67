"""The table of docs/events.md from the declarations: `python -m tests.cli.events_doc` writes the page anew."""

from pathlib import Path

from muster_coordinator.events import KINDS

FILE = Path(__file__).parents[2] / "docs" / "events.md"
HEAD = """# Events in a replica's log

A replica writes one JSON object a line to standard error (`muster.log.level`, by default `info`). What happens to
groups and replicas is logged under `"logger": "events"`, with the message and the fields of this table, and counted in
`muster_events_total{event}`. Each line also has `ts`, `level`, `broker`, `raft_group` and `partition` (of
`__consumer_offsets`, if the event is a consumer group's).

Of one kind 50 lines are written in 10 seconds, of rare ones 5,000; repeats beyond that are one line when the 10 seconds
end: `"… : more of these were not logged"` with `times`. Names and reasons that clients chose are cut at 256 characters.
Record keys and values, member metadata, assignments and tokens are never logged.

This page is written from the declarations (`python -m tests.cli.events_doc`); a test holds the two together.

| message | level | fields | meaning |
|---|---|---|---|
"""
TAIL = """
## Looking for something

A group that rebalances too often, and why each time:

```bash
grep '"preparing to rebalance"' replica.log | grep '"consumer_group": "orders"'
```

Who was expelled, from which host:

```bash
grep '"member expelled"' replica.log
```
"""


def text() -> str:
    rows = (
        f"| {kind.name}{' (rare)' if kind.rare else ''} | {kind.level.name.lower()} | "
        f"{', '.join(f'`{field}`' for field in kind.fields)} | {kind.meaning} |"
        for kind in KINDS
    )
    return HEAD + "\n".join(rows) + "\n" + TAIL


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
