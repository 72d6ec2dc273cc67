"""What a live log has lost since it was read: an unclean election, or a broker that came back without its last records.

Offsets alone do not tell: the log may have grown beyond its old end with other records. The published records carry the
leader epochs of their batches, and a leader knows where each of its epochs ends (OffsetForLeaderEpoch, KIP-320). As a
follower does (KIP-101, KIP-279), we ask for the end of our last epoch. If the leader has it and ends it behind our last
record, nothing is lost; else what lies behind the answer is not in the log, and older epochs are asked for until both
agree.

What it cannot do: notice anything about records without an epoch (-1, very old logs).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.decode.origin import Damage, of_finding
from muster_pipeline.decode.segment import Account
from muster_pipeline.sources.cluster import EpochEnd
from muster_pipeline.sources.errors import OffsetGone
from muster_pipeline.store import reader
from muster_pipeline.store.reader import Snapshot
from muster_pipeline.transforms.arrays import ints

REASON: Final = "log_truncated"
ROUNDS_MAX: Final = 1_000
"""Requests until both logs agree: at most one for each of our epochs."""

Ask = Callable[[Mapping[int, int]], Mapping[int, EpochEnd]]
"""Log partition -> epoch; log partition -> what the leader says of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epochs:
    """Leader epochs of the published records of one log partition, ascending, with the first offset of each."""

    epochs: tuple[int, ...]
    starts: tuple[int, ...]
    end: int
    """Behind the last record."""

    def last_up_to(self, epoch: int) -> int | None:
        """Place of our largest epoch that is not above; None if there is none."""
        places = [place for place, mine in enumerate(self.epochs) if mine <= epoch]
        return places[-1] if places else None

    def end_of(self, place: int) -> int:
        """Behind the last record of an epoch, at the latest."""
        return self.starts[place + 1] if place + 1 < len(self.starts) else self.end


def published_epochs(root: Snapshot, log_partition: int) -> Epochs | None:
    """None without records that have an epoch."""
    rows = reader.read("records", root, columns=["log_offset", "leader_epoch"], log_partitions=[log_partition])
    if rows.num_rows == 0 or pc.min(rows["leader_epoch"]).as_py() < 0:
        return None
    epochs, offsets = ints(rows["leader_epoch"]), ints(rows["log_offset"])
    first = np.flatnonzero(np.diff(epochs, prepend=epochs[0] - 1))
    return Epochs(epochs=tuple(epochs[first].tolist()), starts=tuple(offsets[first].tolist()), end=int(offsets[-1]) + 1)


def truncated(known: Mapping[int, Epochs], ask: Ask) -> dict[int, int]:
    """Log partition -> first offset whose published rows are not in the log. Raises OffsetGone if nothing agrees."""
    cut = {number: one.end for number, one in known.items()}
    asking = {number: one.epochs[-1] for number, one in known.items()}
    for _ in range(ROUNDS_MAX):
        if not asking:
            break
        answers = ask(asking)
        again: dict[int, int] = {}
        for number, asked in asking.items():
            ours, answer = known[number], answers[number]
            if answer.epoch == asked:
                cut[number] = min(cut[number], answer.end_offset)
                continue
            place = ours.last_up_to(min(answer.epoch, asked - 1) if answer.epoch >= 0 else asked - 1)
            if place is None:
                raise OffsetGone(
                    f"log partition {number}: the cluster knows none of the leader epochs {ours.epochs[0]} to "
                    f"{ours.epochs[-1]} that were read: the log was created again; give another folder"
                )
            end = ours.end_of(place)
            cut[number] = min(cut[number], end if answer.epoch < 0 else min(end, answer.end_offset))
            again[number] = ours.epochs[place]
        asking = again
    return {number: at for number, at in cut.items() if at < known[number].end}


def finding(log_partition: int, at: int, known_end: int, count: int) -> Damage:
    """What is said of the rows that are withdrawn."""
    text = (
        f"offsets {at} to {known_end - 1} of log partition {log_partition} were read and are not in the log any more "
        f"(an unclean election, or a broker that lost its last records): {count} rows of records were withdrawn"
    )
    return of_finding(REASON, text, (at, known_end - 1))


def kept_quarantine(rows: pa.Table, at: int) -> pa.Table:
    """Rows of quarantine that stay: of bytes, which were read all the same, and of what lies before `at`."""
    before = pc.fill_null(pc.less(rows["first_offset"], at), True)
    stays = pc.or_(pc.equal(rows["scope"], "bytes"), pc.equal(rows["reason"], REASON))
    return rows.filter(pc.or_(before, stays))


def kept_account(account: Account, root: Snapshot, log_partition: int, at: int, kept: pa.Table) -> tuple[Account, int]:
    """The account of what is left before `at`, and how many records are withdrawn. Bytes count as read."""
    rows = reader.read("records", root, columns=["log_offset"], log_partitions=[log_partition])
    left = int(pc.sum(pc.less(rows["log_offset"], at)).as_py() or 0)
    values: dict[str, Any] = {name: getattr(account, name) for name in Account.__dataclass_fields__}
    scopes = kept["scope"].to_pylist()
    values["records_quarantined"] = scopes.count("record")
    values["records"] = left
    if account.next_offset is not None and account.first_offset is not None:
        values["next_offset"] = min(at, account.next_offset)
        holes = max(0, values["next_offset"] - account.first_offset) - left - _undecoded(kept, rows)
        values["offsets_missing"] = min(account.offsets_missing, max(0, holes))
    return Account(**values), rows.num_rows - left


def _undecoded(kept: pa.Table, rows: pa.Table) -> int:
    chosen = kept.filter(pc.equal(kept["scope"], "record"))
    both = pc.is_in(chosen["first_offset"], value_set=rows["log_offset"].combine_chunks())
    known: list[bool] = both.to_pylist()
    return known.count(False)
