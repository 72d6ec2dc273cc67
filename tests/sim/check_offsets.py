"""O1-O6, O8, O10, O12 of committed offsets, from the history alone."""

from collections import defaultdict

from tests.sim import frames
from tests.sim.history import CommitAsk, FetchAsk, History, Violation
from tests.sim.registers import NEVER_US, Read, Write, violation

DEFINITE = frozenset({3, 12, 22, 24, 25, 27, 28, 30, 42, 69, 82})
"""Answers to a commit after which it must never take effect (invariant O3). The rest may yet happen."""
Key = tuple[str, str, int]


def check_offsets(history: History, *, but: str = "") -> list[Violation]:
    """Every key is a register, and nobody reads what was refused. `but`: a group that is judged elsewhere."""
    found: list[Violation] = []
    writes: dict[Key, list[Write]] = defaultdict(list)
    reads: dict[Key, list[Read]] = defaultdict(list)
    rows: dict[str, tuple[Key, tuple[str, int, int, int, str], int]] = {}
    ops = [op for op in history.of(frames.COMMIT, frames.FETCH) if op.group != but or not but]
    for op in ops:
        if op.api != frames.COMMIT:
            continue
        ask: CommitAsk = op.ask
        for row in ask.rows:
            code = None if op.answer is None else op.answer[row[0], row[1]]
            key = (op.group, row[0], row[1])
            rows[row[4]] = (key, row, -99 if code is None else code)
            if code not in DEFINITE:
                end_us = op.answered_us if code == 0 else NEVER_US
                assert end_us is not None
                writes[key].append(Write(row[4], op.sent_us, end_us))
    for op in ops:
        if op.api != frames.FETCH or op.answer is None or op.answer.error != 0:
            continue
        fetch: FetchAsk = op.ask
        if op.answer.offsets.keys() != set(fetch.keys):
            found.append(Violation("O10", f"asked for {fetch.keys}, got {sorted(op.answer.offsets)}"))
        for (topic, partition), row_read in op.answer.offsets.items():
            if row_read.error != 0:
                continue
            key = (op.group, topic, partition)
            assert op.answered_us is not None
            value = None if row_read.offset == -1 else row_read.metadata
            wrong = _wrong_row(key, row_read, rows)
            if wrong:
                found.append(Violation(*wrong))
            else:
                reads[key].append(Read(value, op.sent_us, op.answered_us))
    for key in sorted(writes.keys() | reads.keys()):
        why = violation(writes[key], reads[key])
        if why is not None:
            name = "O4" if why.startswith("None") or "while None" in why else "O1/O5"
            found.append(Violation(name, f"{key}: {why}"))
    return found


def _wrong_row(
    key: Key, got: frames.FetchedOffset, rows: dict[str, tuple[Key, tuple[str, int, int, int, str], int]]
) -> tuple[str, str] | None:
    if got.offset == -1:
        return None if got.metadata == "" else ("O12", f"{key}: no offset, but metadata {got.metadata}")
    known = rows.get(got.metadata)
    if known is None:
        return "O12", f"{key}: read {got}, which nobody committed"
    written_key, row, code = known
    if written_key != key:
        return "O10", f"{key}: read what was committed for {written_key}"
    if (row[2], row[3]) != (got.offset, got.epoch):
        return "O12", f"{key}: committed {row}, read {got}"
    if code in DEFINITE:
        return "O3", f"{key}: read {row[4]}, whose commit was answered {code}"
    return None
