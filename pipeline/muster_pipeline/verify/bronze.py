"""I1 and I2: no byte and no offset was lost between files and bronze."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.transforms.arrays import ints
from muster_pipeline.verify.finding import Finding, Verdict, verdict


def bytes_conserved(files: pa.Table, quarantine: pa.Table) -> Verdict:
    """I1: the account of each file adds up, and its quarantined bytes are those of its quarantine rows."""
    held: dict[tuple[int, str], int] = {}
    for number, name, count in zip(
        *(quarantine[column].to_pylist() for column in ("log_partition", "file", "byte_count")), strict=True
    ):
        held[number, name] = held.get((number, name), 0) + count
    findings = []
    for row in files.to_pylist():
        where = f"file {row['file']}"
        out = row["bytes_decoded"] + row["bytes_quarantined"] + row["bytes_pending"]
        if out != row["bytes_in"]:
            findings.append(Finding(invariant="I1", where=where, what=f"{row['bytes_in']} bytes in, {out} out"))
        rows = held.pop((row["log_partition"], row["file"]), 0)
        if rows != row["bytes_quarantined"]:
            what = f"{row['bytes_quarantined']} bytes quarantined by its account, {rows} by its rows"
            findings.append(Finding(invariant="I1", where=where, what=what))
    for (_, name), count in held.items():
        what = f"{count} bytes in quarantine, but no account"
        findings.append(Finding(invariant="I1", where=f"file {name}", what=what))
    return verdict("I1", files.num_rows, findings)


def offsets_once(records: pa.Table, files: pa.Table, quarantine: pa.Table) -> Verdict:
    """I2: offsets rise without repetition, and holes are as many as the accounts and the quarantine explain."""
    findings: list[Finding] = []
    for number in sorted(set(records["log_partition"].to_pylist()) | set(files["log_partition"].to_pylist())):
        mine = pc.field("log_partition") == number
        findings += _one_partition(number, records.filter(mine), files.filter(mine), quarantine.filter(mine))
    return verdict("I2", records.num_rows, findings)


def _one_partition(number: int, records: pa.Table, files: pa.Table, quarantine: pa.Table) -> list[Finding]:
    where = f"log partition {number}"
    offsets = ints(records["log_offset"])
    findings = []
    steps = np.diff(offsets)
    for at in offsets[1:][steps <= 0][:5].tolist():
        findings.append(Finding(invariant="I2", where=where, what=f"offset {at} is not above the one before it"))
    counted = sum(files["records"].to_pylist())
    if counted != records.num_rows:
        what = f"{records.num_rows} records, {counted} by the files' accounts"
        findings.append(Finding(invariant="I2", where=where, what=what))
    if findings or not len(offsets) or None in files["next_offset"].to_pylist():
        return findings
    span = max(files["next_offset"].to_pylist()) - min(files["first_offset"].to_pylist())
    lost = span - len(offsets) - sum(files["offsets_missing"].to_pylist()) - _undecodable(quarantine, records)
    damaged = any(one not in ("record", "finding") for one in quarantine["scope"].to_pylist()) or len(files) > 1
    if lost < 0 or (lost > 0 and not damaged):
        what = f"{span} offsets, of which {lost} are neither record nor quarantined nor a counted hole"
        findings.append(Finding(invariant="I2", where=where, what=what))
    return findings


def _undecodable(quarantine: pa.Table, records: pa.Table) -> int:
    """Records in quarantine that are not in `records` too (group records with a broken value are in both)."""
    chosen = quarantine.filter(pc.field("scope") == "record")
    if not chosen.num_rows:
        return 0
    both = pc.is_in(chosen["first_offset"], value_set=records["log_offset"].combine_chunks())
    return int(pc.sum(pc.invert(both)).as_py())
