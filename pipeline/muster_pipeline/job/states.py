"""What a round of a stream leaves for the next one, and whether what is found there belongs to what is published.

One row of table `fold_states` for each log partition, published with the tables that it belongs to. It is gone on with
only if all of it is so: its hash is right, it was made by this code and these settings, it ends where the next record
is read, and the files that it counts as final, and the samples that it has seen, are those that are published. Else the
published records are folded again, which any release, batch or repair of the tables may make necessary, and which costs
one long round.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

import numpy as np
import pyarrow as pa

from muster_pipeline.job.truncation import Epochs, published_epochs
from muster_pipeline.schemas.fold_states import FOLD_STATES
from muster_pipeline.store import reader
from muster_pipeline.store.files import FileEntry
from muster_pipeline.store.reader import Snapshot
from muster_pipeline.tables.catalog import LOG_ENDS_TABLE, STATES_TABLE
from muster_pipeline.transforms.arrays import ints
from muster_pipeline.transforms.settings import FoldSettings

_CODE: Final = ("muster_pipeline.transforms", "muster_pipeline.decode", "muster_pipeline.schemas")
_PLAIN: Final = tuple(name for name in FOLD_STATES.names if name != "state")

Files = Mapping[str, Sequence[FileEntry]]
"""Table -> files of one log partition, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A state whose files and place are those that are published."""

    end_offset: int
    fingerprint: str
    files: Files
    """Whose rows will not change."""
    epochs: Epochs | None


def found(before: Snapshot, log_partition: int) -> Stored | None:
    """None if there is none, or one of other files. Raises DamagedStore."""
    if STATES_TABLE not in before.tables:
        return None
    rows = reader.read(STATES_TABLE, before, columns=_PLAIN, log_partitions=[log_partition]).to_pylist()
    if len(rows) != 1:
        return None
    (row,) = rows
    told: dict[str, list[list[Any]]] = json.loads(row["files"])
    tails: dict[str, int] = json.loads(row["tails"])
    files: dict[str, list[FileEntry]] = {}
    if told.pop(LOG_ENDS_TABLE, []) != [[one.digest, one.rows] for one in before.of(LOG_ENDS_TABLE)]:
        return None
    for name, final in told.items():
        entries = [one for one in before.of(name) if one.log_partition == log_partition]
        if [[one.digest, one.rows] for one in entries[: len(final)]] != final:
            return None
        if len(entries) != len(final) + tails.get(name, 0):
            return None
        files[name] = entries[: len(final)]
    seen = None if row["epochs"] is None else json.loads(row["epochs"])
    epochs = (
        None if seen is None else Epochs(epochs=tuple(seen["epochs"]), starts=tuple(seen["starts"]), end=seen["end"])
    )
    return Stored(end_offset=row["end_offset"], fingerprint=row["fingerprint"], files=files, epochs=epochs)


def state_of(before: Snapshot, log_partition: int) -> bytes:
    """The state itself."""
    (state,) = reader.read(STATES_TABLE, before, columns=["state"], log_partitions=[log_partition])["state"].to_pylist()
    return bytes(state)


def row(
    settings: FoldSettings, log_partition: int, end_offset: int, files: Files, tails: Files, epochs: Epochs | None,
    state: bytes,
) -> pa.Table:  # fmt: skip
    """The row that the next round finds."""
    told = {
        "cluster": settings.cluster, "log_partition": log_partition, "end_offset": end_offset,
        "fingerprint": fingerprint(settings),
        "files": json.dumps({name: [[one.digest, one.rows] for one in entries] for name, entries in files.items()}),
        "tails": json.dumps({name: len(entries) for name, entries in tails.items()}),
        "epochs": None if epochs is None else json.dumps(asdict(epochs)),
        "state": state,
    }  # fmt: skip
    return pa.Table.from_pylist([told], schema=FOLD_STATES)


def fingerprint(settings: FoldSettings) -> str:
    """Of all that decides which rows a fold makes of records."""
    text = json.dumps(asdict(settings), sort_keys=True)
    return hashlib.sha256(f"{_code()} {text}".encode()).hexdigest()


def known_epochs(before: Snapshot, log_partitions: Sequence[int] | Mapping[int, int]) -> dict[int, Epochs]:
    """Leader epochs of the published records: as the states tell them, else from the records."""
    told: dict[int, Epochs] = {}
    for number in log_partitions:
        state = found(before, number)
        epochs = published_epochs(before, number) if state is None else state.epochs
        if epochs is not None:
            told[number] = epochs
    return told


class EpochsSeen:
    """Leader epochs of records in the order of the log."""

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._end = 0
        self._is_known = True

    @classmethod
    def on(cls, stored: Stored) -> "EpochsSeen":
        """Those of published records, and of what comes behind them."""
        found = cls()
        if stored.epochs is not None:
            found._epochs, found._starts = list(stored.epochs.epochs), list(stored.epochs.starts)
            found._end = stored.epochs.end
        found._is_known = stored.epochs is not None or not stored.files.get("records")
        return found

    def see(self, records: pa.Table) -> None:
        """The next ones."""
        if not records.num_rows:
            return
        epochs, offsets = ints(records["leader_epoch"]), ints(records["log_offset"])
        self._is_known = self._is_known and int(epochs.min()) >= 0
        before = self._epochs[-1] if self._epochs else int(epochs[0]) - 1
        first = np.flatnonzero(np.diff(epochs, prepend=before))
        self._epochs += epochs[first].tolist()
        self._starts += offsets[first].tolist()
        self._end = int(offsets[-1]) + 1

    def told(self) -> Epochs | None:
        """None without records that have an epoch, as `published_epochs` says it."""
        if not self._is_known or not self._epochs:
            return None
        return Epochs(epochs=tuple(self._epochs), starts=tuple(self._starts), end=self._end)


@cache
def _code() -> str:
    """Also of a package in an archive, as executors have it."""
    digest = hashlib.sha256()
    for package in _CODE:
        for one in sorted(resources.files(package).iterdir(), key=lambda one: one.name):
            if one.name.endswith(".py"):
                digest.update(one.name.encode() + b"\0" + one.read_bytes())
    return digest.hexdigest()
