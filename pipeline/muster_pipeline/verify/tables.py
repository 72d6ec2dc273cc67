"""I3 and I4: two sets of published tables hold the same rows. I3 asks for equal bytes, I4 for equal rows."""

from typing import Final

import pyarrow as pa

from muster_pipeline.store import reader
from muster_pipeline.store.reader import Root
from muster_pipeline.tables.catalog import DERIVED
from muster_pipeline.verify.assignments import moves_counted, one_owner
from muster_pipeline.verify.bronze import bytes_conserved, offsets_once
from muster_pipeline.verify.finding import Finding, Verdict, verdict

_LAG_KEY: Final = ("log_partition", "minute_ms", "group_id", "topic", "partition")


def same_bytes(left: Root, right: Root) -> Verdict:
    """I3: two runs over the same input published the same files."""
    files = [{one.content for one in reader.published(root).files} for root in (left, right)]
    only = sorted({(table, log_partition) for table, log_partition, *_ in files[0] ^ files[1]})
    findings = [
        Finding(invariant="I3", where=f"table {table}, log partition {number}", what="not the same in both runs")
        for table, number in only
    ]
    return verdict("I3", len(files[0] | files[1]), findings)


def same_rows(stream: Root, batch: Root) -> Verdict:
    """I4: silver and gold of a stream equal those of a batch over the same offsets."""
    findings = []
    stream, batch = reader.published(stream), reader.published(batch)
    for name in DERIVED:
        one, other = (in_order(name, reader.read(name, side)) for side in (stream, batch))
        if not one.equals(other):
            what = f"{one.num_rows} rows from the stream, {other.num_rows} from the batch, or other values"
            findings.append(Finding(invariant="I4", where=f"table {name}", what=what))
    return verdict("I4", len(DERIVED), findings)


def in_order(name: str, rows: pa.Table) -> pa.Table:
    """As a batch has them: rows of lag come into a stream's table when they are decided."""
    if name != "lag":
        return rows
    return rows.sort_by([(column, "ascending") for column in _LAG_KEY])


def check(root: Root) -> tuple[Verdict, ...]:
    """I1, I2, I5 and I6 of published tables, and that their files are what was published (reported as I3).

    Raises NothingPublished, DamagedStore when a table that a check needs cannot be read at all.
    """
    root = reader.published(root)
    damaged = [Finding(invariant="I3", where=str(root.place), what=text) for text in reader.damages(root)]
    verdicts = [verdict("I3", len(root.files), damaged)]
    if damaged:
        return tuple(verdicts)
    quarantine, files = reader.read("quarantine", root), reader.read("files", root)
    records = reader.read("records", root, columns=["log_partition", "log_offset"])
    assignments, memberships = reader.read("assignments", root), reader.read("memberships", root)
    verdicts += [
        bytes_conserved(files, quarantine),
        offsets_once(records, files, quarantine),
        one_owner(assignments),
        moves_counted(reader.read("rebalances", root), assignments, memberships),
    ]
    return tuple(verdicts)
