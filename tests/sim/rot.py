"""What happens to files at rest: single bits flip, and whole disks are lost; of a minority of the replicas, a group at
a time.

Problem: a cluster survives damage of any minority, so a run must damage no more, and one that does finds nothing but
its own mistake. Mechanism: `Harm` remembers what of whom was damaged: of a group its segments and checkpoints, or all
groups of a replica at once (its WAL, its disk). Bits flip while a replica is down: what a life has checked or appended
it trusts until its end (ADR 17). In a WAL they flip in any batch, the last that was synced as likely as all others, and
only behind a process that was killed: a power loss may take the proof of that batch along (ADR 23, ADR 33). `identity`
and `cluster` are left alone.
"""

import random
from typing import NamedTuple

from muster_coordinator.replica.group_manager import OFFSETS_WAL, TOPICS_WAL
from muster_coordinator.storage.wal_format import ALIGN, BATCH_END, CONFIG, FILE_HEADER_BYTES, RECORD_HEADER_BYTES
from muster_coordinator.storage.wal_proof import PROOF_NAME

from tests.sim.disk import SimDisk

SEGMENT, SIDECAR, CHECKPOINT, WAL, PROOF = "segment", "sidecar", "checkpoint", "WAL", "proof of a sync"


class Harm:
    """What of whom was damaged in a run of `nodes` replicas; of no group more than a minority."""

    def __init__(self, nodes: int) -> None:
        self.most = (nodes - 1) // 2
        self.rotten: set[int] = set()
        """Replicas in whose files a bit flipped."""
        self._whole: set[int] = set()
        """Replicas of which every group may lack something."""
        self._groups: dict[int, set[int]] = {}
        self._anew: dict[int, list[int | None]] = {}
        """Of replicas whose disks were lost, what was damaged of the new ones."""

    def may(self, broker: int, group: int | None) -> bool:
        """Whether this group of this replica, or all of it, may be damaged."""
        if group is None:
            known = [self._whole, *self._groups.values()]
        else:
            known = [self._groups.get(group, set())]
        return all(len(harmed | self._whole | {broker}) <= self.most for harmed in known)

    def note(self, broker: int, group: int | None) -> None:
        assert self.may(broker, group)
        if broker in self._whole:
            self._anew.setdefault(broker, []).append(group)
        (self._whole if group is None else self._groups.setdefault(group, set())).add(broker)

    def undo(self, broker: int) -> None:
        """Nothing depends on the disk that this replica lost any more; what was damaged since stays."""
        self._whole.discard(broker)
        for harmed in self._groups.values():
            harmed.discard(broker)
        for group in self._anew.pop(broker, ()):
            self.note(broker, group)


class Place(NamedTuple):
    """Bytes of which one bit may flip. `group` None: it may cost all groups."""

    what: str
    path: str
    start: int
    stop: int
    group: int | None


def places(disk: SimDisk, *, wal: bool) -> list[Place]:
    """All that a stopped replica's files offer. `wal`: also what says what was promised."""
    found = []
    files = disk.files()
    growing = {path.rpartition("/")[0]: path for path in files if path.endswith(".log")}
    for path in files:
        folder, _, rest = path.partition("/")
        size = len(disk.content(path))
        if not size or folder not in ("segments", "checkpoints") or rest.endswith(".tmp"):
            continue
        group = int(rest.partition("/")[0])
        if folder == "checkpoints":
            found.append(Place(CHECKPOINT, path, 0, size, group))
        elif path.endswith(".sidx"):
            found.append(Place(SIDECAR, path, 0, size, group))
        elif path.endswith(".log") and growing[path.rpartition("/")[0]] != path:
            found.append(Place(SEGMENT, path, 0, size, group))
    for wal_writer in (OFFSETS_WAL, TOPICS_WAL) if wal else ():
        found += _promises(disk, wal_writer, [path for path in files if path.startswith(f"{wal_writer}/")])
    return found


def _promises(disk: SimDisk, wal_writer: str, files: list[str]) -> list[Place]:
    found = [Place(PROOF, path, 0, len(disk.content(path)), None) for path in files if path.endswith(PROOF_NAME)]
    logs = sorted(path for path in files if path.endswith(".wal"))
    for path in logs:
        ends = batch_ends(disk.content(path))
        if ends:
            found.append(Place(WAL, path, FILE_HEADER_BYTES, ends[-1], None))
        if path == logs[-1] and len(ends) > 1:
            found.append(Place(WAL, path, ends[-2], ends[-1], None))
    return found


def batch_ends(content: bytes) -> list[int]:
    """Where the batches of a WAL file end; empty when something unfinished follows the last."""
    ends: list[int] = []
    at = FILE_HEADER_BYTES
    while at + RECORD_HEADER_BYTES <= len(content):
        kind = content[at + 8]
        length = int.from_bytes(content[at : at + 4], "big")
        if not 1 <= kind <= CONFIG or at + RECORD_HEADER_BYTES + length > len(content):
            break
        at += RECORD_HEADER_BYTES + length + -length % ALIGN
        if kind == BATCH_END:
            ends.append(at)
    return ends if ends and not content[ends[-1] :].strip(b"\0") else []


def flip(disk: SimDisk, harm: Harm, broker: int, rand: random.Random, *, wal: bool) -> str | None:
    """Flip one bit of one kind of place that may be damaged; what it was, if there is any. A WAL is twice as likely as
    any other kind."""
    allowed = [place for place in places(disk, wal=wal) if harm.may(broker, place.group)]
    if not allowed:
        return None
    kinds = sorted({place.what for place in allowed})
    what = rand.choice([*kinds, WAL] if WAL in kinds else kinds)
    place = rand.choice([place for place in allowed if place.what == what])
    at = rand.randrange(place.start, place.stop)
    disk.damage(place.path, at, bytes([disk.content(place.path)[at] ^ 1 << rand.randrange(8)]))
    harm.note(broker, place.group)
    harm.rotten.add(broker)
    return what
