"""The table of docs/events.md from the declarations: `python -m tests.cli.events_doc` writes the page anew."""

from pathlib import Path

from muster_coordinator.events import KINDS

FILE = Path(__file__).parents[2] / "docs" / "events.md"
HEAD = """# Events in a replica's log

A replica writes one JSON object a line to standard error. What happens to groups and replicas is logged under
`"logger": "events"`, with the message and the fields of this table, and counted in `muster_events_total{event}`. Each
line also has `ts`, `level`, `broker` and `room`, and, if it is about a Raft group or a consumer group, `raft_group` and
`partition` (of `__consumer_offsets`, if it is a consumer group's).

At most 50 lines of one kind are written in 10 seconds, or 5,000 of a rare kind (elections, expulsions, loss). Repeats
beyond that are summed up in one line when the 10 seconds end: `"… : more of these were not logged"` with `times`. Names
and reasons that clients chose are cut at 256 characters, and control characters are escaped. Record keys and values,
member metadata, assignments and tokens are never logged.

A log pipe that is not read does not block the replica: lines that do not fit into the queue are counted
(`muster_log_records_dropped_total`), and `"log records dropped"` says how many, as soon as the pipe is read again.

## Levels

`muster.log.level` of the configuration, or `muster server --log-level`, is the level of the process (`info`). While it
runs each room has its own through the admin API, until the process ends:

```bash
curl -s -X PUT -H "Authorization: Bearer $(cat admin-token)" http://127.0.0.1:8081/v1/log-levels \\
  -d '{"levels": {"snapshots": "debug", "groups": "warning"}}'
```

Rooms are those of the table, `runtime` and `admin` (for their own lines), and `process` for all without a level of
their own; `null` restores the configured level.

## Table

This page is written from the declarations (`python -m tests.cli.events_doc`); a test holds the two together.

| message | room | level | fields | meaning |
|---|---|---|---|---|
"""
TAIL = """
## Examples

Why a group rebalances, each time:

```bash
grep '"preparing to rebalance"' replica.log | grep '"consumer_group": "orders"'
```

Which members were expelled, with their hosts:

```bash
grep '"member expelled"' replica.log
```
"""


def text() -> str:
    rows = (
        f"| {kind.name}{' (rare)' if kind.rare else ''} | {kind.room} | {kind.level.name.lower()} | "
        f"{', '.join(f'`{field}`' for field in kind.fields)} | {kind.meaning} |"
        for kind in KINDS
    )
    return HEAD + "\n".join(rows) + "\n" + TAIL


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
