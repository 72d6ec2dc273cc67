"""`explain`: one paragraph on standard output, then the rows that prove it, by table."""

import json
import sys
from datetime import UTC, datetime
from itertools import groupby

import pyarrow as pa

from muster_pipeline.cli.reporting import show
from muster_pipeline.report.explain import Explanation
from muster_pipeline.report.explain import explain as explained
from muster_pipeline.store.reader import Published, Snapshot
from muster_pipeline.tables.errors import BadInput


def explain(tables: Snapshot, group: str, at: str | None, *, as_json: bool) -> None:
    """Raises BadInput for a time that is none and a group that the tables do not know then, TablesError."""
    at_ms = None if at is None else moment_ms(at)
    found = explained(Published(tables), group, at_ms)
    if found is None:
        when = "" if at is None else f" up to {at}"
        raise BadInput(f"no committed offset of group {group!r} is known{when}: see `muster pipeline report`")
    if as_json:
        sys.stdout.write(json.dumps(document(found), indent=1, ensure_ascii=False) + "\n")
        return
    sys.stdout.write(found.paragraph + "\n")
    for name, proof in groupby(found.proof, key=lambda one: one[0]):
        sys.stdout.write(f"\n{name}\n")
        show(pa.Table.from_pylist([row for _, row in proof]))


def document(found: Explanation) -> dict[str, object]:
    """As JSON."""
    return {
        "group": found.group,
        "atMs": found.at_ms,
        "cause": found.cause,
        "lag": found.lag,
        "paragraph": found.paragraph,
        "proof": [{"table": name, "row": row} for name, row in found.proof],
    }


def moment_ms(text: str) -> int:
    """ms since 1970 of an ISO time. Raises BadInput."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"--at takes an ISO time such as 2026-11-26T03:00, not {text!r}") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
