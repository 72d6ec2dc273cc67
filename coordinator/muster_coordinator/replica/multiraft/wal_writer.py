"""One WAL and its thread: what a turn stages becomes one batch and one fdatasync; one job is in flight.

While a job runs the next turns' writes accumulate, so the batch size follows the disk's latency without a timer. A
`Ready`'s promises (`after_persist`) wait for its own batch; promises of a `Ready` that writes nothing wait for the last
batch that the same group is in, because they may rest on it. An error of the job is fatal to the process: dirty pages
may be gone (raft rule 30).

Who may write into it, and when, is `wal_admission`'s business.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from muster_coordinator.errors import Corruption, StorageFailed
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Loop
from muster_coordinator.raft.messages import Message, Ready
from muster_coordinator.replica import limits
from muster_coordinator.replica.multiraft.wal_admission import Admission
from muster_coordinator.storage.contract import GroupWrites, WalStore


class Batch:
    """What becomes durable together."""

    __slots__ = ("durable", "notices", "persisted", "promises")

    def __init__(self) -> None:
        self.durable = False
        self.persisted: dict[WalGroup, tuple[int, int]] = {}
        """The last `persisted` notice of each group in this batch."""
        self.promises: list[tuple[WalGroup, tuple[Message, ...]]] = []
        self.notices: list[Callable[[], None]] = []


class WalStatus(NamedTuple):
    """How full one WAL is, and what was done about it; plain values, taken when asked."""

    name: str
    used_bytes: int
    room_bytes: int
    carried_bytes: int
    """Written again since the start, so that old files could go."""
    slowed: int
    """Proposals that were told to try again since the start."""
    parked: int
    """Batches that wait for room now."""


class WalGroup(Protocol):
    """What the writer needs of a group's runtime."""

    number: GroupNo
    batch: Batch
    """The last batch that this group has writes in."""

    def persisted(self, era: int, index: int) -> None:
        """The core's writes up to here are durable."""


class WalWriter:
    """See the module. `release` sends promises; `turn_wanted` asks for a turn of the host; `shortened(wal_writer,
    groups)` is told of which groups the WAL let go of old entries: cores must not ask for them any more."""

    def __init__(
        self,
        loop: Loop,
        name: str,
        wal: WalStore,
        *,
        release: Callable[[WalGroup, tuple[Message, ...]], None],
        turn_wanted: Callable[[], None],
        shortened: Callable[["WalWriter", Sequence[GroupNo]], None],
        unreadable: Callable[[GroupNo, Corruption], None],
        fatal: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._name = name
        self.wal = wal
        self._release = release
        self._turn_wanted = turn_wanted
        self._shortened = shortened
        self._unreadable = unreadable
        self._fatal = fatal
        self._staging = Batch()
        self._dirty = False
        self._held: dict[GroupNo, tuple[int, int]] = {}
        self._preparing = False
        self._prepared = False
        """The file to come is whole, since no batch was written."""
        self._in_flight: Batch | None = None
        self._began_ms = 0
        self._carried_ms = 0
        self.admission = Admission(loop, wal)
        self.batches = 0
        self.longest_ms = 0

    def stage_ready(self, group: WalGroup, ready: Ready) -> None:
        """Take a `Ready`'s writes and promises."""
        if ready.must_sync:
            self.wal.stage(GroupWrites(group.number, ready.hard_state, ready.entries))
            batch = self._staging
            self._dirty = True
            batch.persisted[group] = (ready.persist_term, ready.persist_index)
            group.batch = batch
            if ready.after_persist:
                batch.promises.append((group, ready.after_persist))
        elif ready.after_persist:
            if group.batch.durable:
                self._release(group, ready.after_persist)
            else:
                group.batch.promises.append((group, ready.after_persist))

    def stage(self, writes: GroupWrites, done: Callable[[], None]) -> None:
        """Writes of the host itself (recovery points, checkpoints); `done` when they are durable."""
        self.wal.stage(writes)
        self._dirty = True
        self._staging.notices.append(done)

    def stage_install(self, group: WalGroup, writes: GroupWrites, done: Callable[[], None]) -> None:
        """As `stage`; what the group's core promises from now on waits for it too."""
        self.stage(writes, done)
        group.batch = self._staging

    def hold(self, group: GroupNo, index: int, until_ms: int) -> None:
        """A follower needs what comes after this entry, until then; the WAL keeps it while there is room."""
        self._held[group] = (index, until_ms)

    def drop_group(self, group: GroupNo, done: Callable[[], None]) -> None:
        """`done` once that is durable; until then a restart finds the group again and needs all its files."""
        if self.wal.drop_group(group):
            self._dirty = True
            self._staging.notices.append(done)
        else:
            done()

    def start(self) -> None:
        """Hand what is staged, or is to be carried, to the WAL thread, unless it is at work."""
        if self._in_flight is not None or not (self._dirty or self.wal.pressed()):
            return
        now_ms = self._loop.monotonic_ms()
        carry = now_ms - self._carried_ms >= limits.WAL_CARRY_PACE_MS
        if carry:
            self._carried_ms = now_ms
        if self._held:
            self._held = {group: held for group, held in self._held.items() if held[1] > now_ms}
            self.wal.hold({group: index for group, (index, _) in self._held.items()})
        job = self.wal.take_job(carry=carry)
        for group, error in self.wal.take_damage():
            self._unreadable(group, error)
        shortened = self.wal.take_shortened()
        if shortened:
            self._shortened(self, shortened)
        if job is None:
            return
        self._prepared = False  # the batch may begin it
        batch = self._staging
        self._in_flight, self._staging = batch, Batch()
        self._dirty = False
        self._began_ms = now_ms
        self._loop.submit(self._name, job, partial(self._done, batch))

    def prepare(self) -> None:
        """Have some more of the file to come made now, while there is room for it; nothing once it is whole."""
        if not self._preparing and not self._prepared:
            self._preparing = True
            self._loop.submit(self._name, self.wal.prepare(), self._prepare_done)

    def _prepare_done(self, result: bool | BaseException) -> None:
        self._preparing = False
        if isinstance(result, BaseException):
            self._fatal(result)
        else:
            self._prepared = result

    def idle(self) -> bool:
        """Nothing is staged and nothing in flight."""
        return self._in_flight is None and not self._dirty

    def status(self) -> WalStatus:
        """For metrics."""
        wal, admission = self.wal, self.admission
        return WalStatus(
            self._name,
            used_bytes=wal.used_bytes(),
            room_bytes=wal.room_bytes(),
            carried_bytes=wal.carried_bytes,
            slowed=admission.slowed,
            parked=admission.parked,
        )

    def stuck_ms(self, now_ms: int) -> int:
        """How long the job in flight has been running; 0 without one."""
        return 0 if self._in_flight is None else now_ms - self._began_ms

    def _done(self, batch: Batch, result: BaseException | None) -> None:
        if isinstance(result, BaseException):
            self._fatal(StorageFailed(str(result)) if isinstance(result, OSError) else result)
            return
        self._in_flight = None
        self.wal.job_done()
        took_ms = self._loop.monotonic_ms() - self._began_ms
        self.batches += 1
        self.longest_ms = max(self.longest_ms, took_ms)
        batch.durable = True
        for group, (era, index) in batch.persisted.items():
            group.persisted(era, index)
        for group, messages in batch.promises:
            self._release(group, messages)
        for notice in batch.notices:
            notice()
        batch.persisted.clear()
        batch.promises.clear()
        batch.notices.clear()
        self._turn_wanted()
