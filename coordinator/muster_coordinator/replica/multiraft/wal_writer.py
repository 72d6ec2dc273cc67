"""One WAL and its thread: the writes that turns stage become one batch and one fdatasync, with one job in flight.

While a job runs, the writes of the next turns accumulate, so the batch size follows the disk's latency without a timer.
A `Ready`'s promises (`after_persist`) wait for its own batch. Promises of a `Ready` that writes nothing wait for the
last batch with writes of the same group, because they may depend on it. An error of a job is fatal to the process:
after a failed sync the kernel may have dropped the dirty pages (raft rule 30).

What it does not do: decide which proposals may enter the WAL, and when (`wal_admission`).
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
    """The writes of one WAL job, which become durable together, and what waits for that."""

    __slots__ = ("durable", "notices", "persisted", "promises")

    def __init__(self) -> None:
        self.durable = False
        self.persisted: dict[WalGroup, tuple[int, int]] = {}
        """The last `persisted` notice of each group in this batch."""
        self.promises: list[tuple[WalGroup, tuple[Message, ...]]] = []
        self.notices: list[Callable[[], None]] = []


class WalStatus(NamedTuple):
    """How full one WAL is, and what was done to keep it from filling; plain values, taken when asked."""

    name: str
    used_bytes: int
    room_bytes: int
    carried_bytes: int
    """Bytes carried to the WAL's end since the start, so that old files could go."""
    slowed: int
    """Proposals refused as busy since the start."""
    parked: int
    """Batches that wait for room now."""


class WalGroup(Protocol):
    """The part of `RaftGroup` that the writer uses."""

    number: GroupNo
    batch: Batch
    """The last batch with writes of this group."""

    def persisted(self, era: int, index: int) -> None:
        """The core's writes up to the `Ready` with these `persist_term` and `persist_index` are durable."""


class WalWriter:
    """See the module. `release` sends promises; `turn_wanted` queues a turn of the host; `shortened(wal_writer,
    groups)` is called before the WAL drops old entries of these groups: cores must no longer read them."""

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
        self.name = name
        self.wal = wal
        self._release = release
        self._turn_wanted = turn_wanted
        self._shortened = shortened
        self._unreadable = unreadable
        self._fatal = fatal
        self._staging = Batch()
        self._dirty = False
        self._looks = True
        """The WAL may be nearly at its bound. It comes nearer by a job only, so after each it is looked at."""
        self._held: dict[GroupNo, tuple[int, int]] = {}
        self._preparing = False
        self._prepared = False
        """The WAL's next file is completely preallocated, and no batch was written since."""
        self._in_flight: Batch | None = None
        self._began_ms = 0
        self._excused_ms = 0
        """Of the job in flight: how long this process itself stood still."""
        self._looked_ms = loop.monotonic_ms()
        self._carried_ms = 0
        self.slow_told = False
        """It was told of the job in flight that it takes long."""
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
        """Stage writes that come from no core (recovery points, checkpoints); `done()` follows when they are
        durable."""
        self.wal.stage(writes)
        self._dirty = True
        self._staging.notices.append(done)

    def stage_install(self, group: WalGroup, writes: GroupWrites, done: Callable[[], None]) -> None:
        """As `stage`; in addition, promises that the group's core makes from now on wait for these writes."""
        self.stage(writes, done)
        group.batch = self._staging

    def hold(self, group: GroupNo, index: int, until_ms: int) -> None:
        """Keep the group's entries after `index` until `until_ms`, while the WAL has room: a follower needs them."""
        self._held[group] = (index, until_ms)

    def drop_group(self, group: GroupNo, done: Callable[[], None]) -> None:
        """Remove a group; `done` is called once that is durable. Until then a restart finds the group in the WAL and
        needs all its files."""
        if self.wal.drop_group(group):
            self._dirty = True
            self._staging.notices.append(done)
        else:
            done()

    def start(self) -> None:
        """Hand the staged writes, or entries to be carried, to the WAL's thread, unless a job is in flight."""
        if self._in_flight is not None:
            return
        if not self._dirty and (not self._looks or not self.wal.pressed()):
            self._looks = False
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
        self._prepared = False  # the batch may begin the next file
        batch = self._staging
        self._in_flight, self._staging = batch, Batch()
        self._dirty = False
        self._began_ms, self._excused_ms = now_ms, 0
        self.slow_told = False
        self._loop.submit(self.name, job, partial(self._done, batch))

    def prepare(self) -> None:
        """Preallocate a further part of the WAL's next file, while the disk has room; nothing once it is complete."""
        if not self._preparing and not self._prepared:
            self._preparing = True
            self._loop.submit(self.name, self.wal.prepare(), self._prepare_done)

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
            self.name,
            used_bytes=wal.used_bytes(),
            room_bytes=wal.room_bytes(),
            carried_bytes=wal.carried_bytes,
            slowed=admission.slowed,
            parked=admission.parked,
        )

    def stuck_ms(self, now_ms: int) -> int:
        """How long the job in flight has been running while this process did; 0 without one."""
        return 0 if self._in_flight is None else now_ms - self._began_ms - self._excused_ms

    def look(self, now_ms: int, apart_ms: int) -> int:
        """`stuck_ms`; there is a look every `apart_ms`, unless the process is frozen or gets no processor."""
        still_ms = now_ms - self._looked_ms - apart_ms
        self._looked_ms = now_ms
        if still_ms > apart_ms:
            self.excuse(now_ms, still_ms)
        return self.stuck_ms(now_ms)

    def excuse(self, now_ms: int, still_ms: int) -> None:
        """This process stood still for so long until now: the job in flight may have ended, and nobody could say so."""
        self._excused_ms += min(still_ms, self.stuck_ms(now_ms))

    def _done(self, batch: Batch, result: BaseException | None) -> None:
        if isinstance(result, BaseException):
            self._fatal(StorageFailed(str(result)) if isinstance(result, OSError) else result)
            return
        self._in_flight = None
        self._looks = True
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
