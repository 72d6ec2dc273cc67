"""`weekly`: a week in some sentences on standard output, then the rows that prove them, by table."""

import json
import sys
from itertools import groupby

import pyarrow as pa

from muster_pipeline.cli.explaining import moment_ms
from muster_pipeline.cli.reporting import show
from muster_pipeline.report.weekly import WEEK_MS, Summary, Week
from muster_pipeline.report.weekly import weekly as summed_up
from muster_pipeline.store.reader import Published, Snapshot
from muster_pipeline.tables.errors import BadInput


def weekly(tables: Snapshot, at: str | None, *, as_json: bool) -> None:
    """Raises BadInput for a time that is none or before the log, TablesError."""
    found = summed_up(Published(tables), None if at is None else moment_ms(at))
    if found is None:
        raise BadInput("nothing was committed" + ("" if at is None else f" up to {at}"))
    if as_json:
        sys.stdout.write(json.dumps(document(found, tables.cluster), indent=1, ensure_ascii=False) + "\n")
        return
    sys.stdout.write("\n".join(found.sentences) + "\n")
    for name, proof in groupby(found.proof, key=lambda one: one[0]):
        sys.stdout.write(f"\n{name}\n")
        show(pa.Table.from_pylist([row for _, row in proof]))


def document(found: Summary, cluster: str) -> dict[str, object]:
    """As JSON."""
    return {
        "cluster": cluster,
        "fromMs": found.until_ms - WEEK_MS,
        "untilMs": found.until_ms,
        "groups": found.groups,
        "groupsInTrouble": found.bad,
        "isWeekBeforeKnown": found.is_before_known,
        "worst": [{"group": name, **_measures(week)} for name, week in found.worst],
        "changes": [
            {"group": one.group, "what": one.what, "now": one.now, "before": one.before, "sentence": one.sentence}
            for one in found.changes
        ],
        "changesHidden": found.changes_hidden,
        "proof": [{"table": name, "row": row} for name, row in found.proof],
    }


def _measures(week: Week) -> dict[str, int | None]:
    names = {
        "peak": "lagMax", "stalled_ms": "stalledMs", "lost": "partitionsLost", "rebalances": "rebalances",
        "read": "recordsRead", "rewound": "recordsRewound",
    }  # fmt: skip
    return {names[what]: value for what, value in week.measures().items()}
