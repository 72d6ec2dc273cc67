"""What `muster recover` says: the folder as a document, what may be lost of each partition, and two folders compared.

The document is what `-o json` prints, and what `--compare` reads of another surviving folder. Pure.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.output import Column, Row
from muster_coordinator.ids import CONTROLLER_GROUP
from muster_coordinator.replica.bootstrap.identity import Phase
from muster_coordinator.replica.recovery.survey import GroupHeld, Survey

Document = dict[str, Any]

COLUMNS = (
    Column("group", "GROUP", numeric=True),
    Column("partition", "PARTITION"),
    Column("last_index", "INDEX", numeric=True),
    Column("last_term", "TERM", numeric=True),
    Column("commit_index", "COMMITTED", numeric=True),
    Column("certain_end_offset", "CERTAIN", numeric=True),
    Column("log_end_offset", "END", numeric=True),
    Column("newest", "NEWEST"),
    Column("lost", "LOST AT MOST"),
)
COMPARED = (
    Column("group", "GROUP", numeric=True),
    Column("partition", "PARTITION"),
    Column("here", "HERE"),
    Column("there", "THERE"),
    Column("more", "MORE"),
    Column("records", "RECORDS", numeric=True),
)
EXPLAINED = (
    "records below CERTAIN are here as they were acknowledged; those up to END are kept as well, though the others may "
    "have decided otherwise; whatever was acknowledged behind END is lost, and only another surviving folder can tell "
    "how much that is"
)


def document(found: Survey, refusals: Sequence[str]) -> Document:
    """The whole survey as plain values."""
    record, image = found.record, found.image
    return {
        "cluster_id": record.cluster_id,
        "epoch": record.epoch,
        "broker": int(found.identity.broker),
        "folder": found.identity.replica_uuid.hex(),
        "feature_level": None if image is None else image.feature_level,
        "begun": found.begun is not None,
        "left_behind": found.phase is Phase.LEFT_BEHIND,
        "refusals": list(refusals),
        "groups": [_row(group) for group in found.groups],
        "unnamed_groups": [int(number) for number in found.unnamed],
    }


def _row(group: GroupHeld) -> dict[str, Any]:
    return {
        "group": int(group.number),
        "partition": group.partition,
        "last_index": group.last_index,
        "last_term": group.last_term,
        "commit_index": group.commit,
        "certain_end_offset": group.certain_end,
        "log_end_offset": group.log_end,
        "newest": _time(group.newest_ms),
        "suspended": group.suspended,
        "trouble": group.trouble,
        "lost": lost(group),
    }


def _time(ms: int | None) -> str | None:
    """In UTC, to the millisecond; None where there is none, or none that a calendar has."""
    try:
        moment = None if ms is None or ms < 0 else datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError):
        return None
    return None if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def lost(group: GroupHeld) -> str:
    """What a recovery from this folder may lose of what was acknowledged, at most."""
    if group.trouble:
        return f"all of it: {group.trouble}"
    if group.last_index == 0:
        return "all of it: " + (
            "the WAL has lost it; keep a copy of its files" if group.suspended else "nothing is here"
        )
    what = (
        f"changes behind entry {group.last_index}"
        if group.number == CONTROLLER_GROUP
        else f"records from offset {group.log_end} on"
    )
    return f"{what}, and entries before it that this folder has lost" if group.suspended else what


def compared(here: Document, there: Document) -> list[Row]:
    """One row for each group of which one folder has more. Raises CliError if the two cannot be compared."""
    try:
        for key in ("cluster_id", "epoch"):
            if here[key] != there[key]:
                raise CliError(Exit.USAGE, f"the other folder has {key} {there[key]}, this one {here[key]}")
        mine, theirs = ({row["group"]: row for row in one["groups"]} for one in (here, there))
        names = {number: row["partition"] for number, row in (*theirs.items(), *mine.items())}
        who = here["broker"], there["broker"]
        rows = [
            {"group": number, "partition": names[number], **_compared(mine.get(number), theirs.get(number), *who)}
            for number in sorted(names)
        ]
    except (KeyError, TypeError, AttributeError):
        raise CliError(Exit.USAGE, "the other file is not what muster recover -o json prints") from None
    return [row for row in rows if row["more"] != ""]


def _compared(mine: Mapping[str, Any] | None, its: Mapping[str, Any] | None, own: int, other: int) -> dict[str, Any]:
    """The log with the later last term has more, and of equal ones the longer: the one that Raft would elect."""
    here, there = _reach(mine), _reach(its)
    ends = [0 if row is None else row["log_end_offset"] for row in (mine, its)]
    return {
        "here": f"entry {here[1]} of term {here[0]}",
        "there": f"entry {there[1]} of term {there[0]}",
        "more": "" if here == there else f"broker {own}" if here > there else f"broker {other}",
        "records": None if None in ends else abs(ends[0] - ends[1]),
    }


def _reach(row: Mapping[str, Any] | None) -> tuple[int, int]:
    return (0, 0) if row is None or row["trouble"] else (row["last_term"], row["last_index"])
