"""Everything the cores are not allowed to do themselves: time, randomness, disk, threads, peers.

The product runs on `muster_coordinator.runtime` (uvloop, threads, files, TCP); the simulator in `tests/sim` gives the
same ports on virtual time. A part that reaches around these ports cannot be simulated and is refused by the
import contracts (pyproject.toml) and by `tests/tidy`.

One thread calls everything here except the body of an I/O job. No port raises into the loop from a callback.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from muster_coordinator.ids import BrokerId

T = TypeVar("T")


Notice = Callable[[str, Mapping[str, object], BaseException | None], None]
"""Tell the operator: what happened, in words that do not vary; the details; the error with its trace. For the log,
which may leave repetitions out; nothing may depend on it."""


def unnoticed(_what: str, _details: Mapping[str, object], _error: BaseException | None) -> None:
    """A `Notice` to nobody."""


class Timer(Protocol):
    """A scheduled call that has not happened yet."""

    def cancel(self) -> None:
        """Forget the call; harmless when it has already been made."""


class Clock(Protocol):
    """Two meanings of time, never exchanged for one another."""

    def monotonic_ms(self) -> int:
        """Milliseconds that only go forward; for deadlines, sessions, leases. Never stored."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump either way. For record timestamps only."""


class Loop(Clock, Protocol):
    """The single thread of a replica, seen as a queue of calls."""

    def call_soon(self, call: Callable[[], None]) -> None:
        """Run `call` after the calls that are already queued, in this or the next turn."""

    def call_at(self, monotonic_ms: int, call: Callable[[], None]) -> Timer:
        """Run `call` once, not before `monotonic_ms`."""

    def submit(self, queue: str, job: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run the blocking `job` off the loop, jobs of one queue in order, one at a time; then `done(result)` on it.

        An exception of the job is passed to `done`, not raised. A job may touch only what it was given: immutable
        values and the `Disk`. Queues used: see `runtime.limits.IO_QUEUES`.
        """

    def submit_paced(
        self, queue: str, steps: Generator[None, None, T], done: Callable[[T | BaseException], None]
    ) -> None:
        """As `submit`, for a job that computes long: after each step the loop can have the interpreter, which a
        thread that never waits gives away only every few milliseconds. The result is what the generator returns."""


class Rand(Protocol):
    """The part of `random.Random` that the product uses."""

    def random(self) -> float: ...
    def randrange(self, start: int, stop: int) -> int: ...
    def randbytes(self, n: int) -> bytes: ...
    def getrandbits(self, k: int) -> int: ...


class File(Protocol):
    """An open file. Positions are explicit: there is no cursor."""

    def pread(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""

    def pwrite(self, offset: int, parts: Sequence[bytes | bytearray | memoryview]) -> int:
        """Write all parts back to back; returns the number of bytes. Durable only after `sync`."""

    def truncate(self, size: int) -> None: ...
    def size(self) -> int: ...

    def sync(self) -> None:
        """fdatasync. OSError here is fatal to the process: the caller must not try again (fsyncgate)."""

    def close(self) -> None: ...


class FileIdentity(NamedTuple):
    """Two looks at a name that find equal ones found the same file, and nobody has written to it in between."""

    size: int
    changed_ns: int
    inode: int


class Disk(Protocol):
    """The data folder of one replica. Paths are relative, `/`-separated. Blocking; OSError as the kernel gives it.

    Creating, renaming and unlinking are durable only after `sync_dir` of the folder.
    """

    def open(self, path: str, *, create: bool = False) -> File: ...
    def exists(self, path: str) -> bool: ...
    def identity(self, path: str) -> FileIdentity:
        """Of the file of this name; another name of it has the same."""

    def listdir(self, path: str) -> list[str]:
        """Sorted names; an absent folder is an empty list."""

    def mkdir(self, path: str, *, durable: bool = True) -> None:
        """With parents; harmless when present. Parents are synced, or by the caller unless `durable`."""

    def rename(self, source: str, target: str) -> None: ...
    def link(self, source: str, target: str) -> None:
        """Another name of the same file; `target` must not be there. Some file systems have no such names: EPERM,
        EOPNOTSUPP, ENOSYS or EMLINK."""

    def unlink(self, path: str) -> None: ...
    def rmtree(self, path: str) -> None: ...
    def sync_dir(self, path: str) -> None: ...
    def free_bytes(self) -> int: ...


class PeerSink(Protocol):
    """What the replica does with what the links bring. Called on the loop."""

    def peer_up(self, peer: BrokerId, hello: bytes) -> None:
        """A link is established; `hello` is the peer's handshake record (`links.handshake`)."""

    def peer_down(self, peer: BrokerId) -> None:
        """The link is gone and was not re-established at once (decision 17: `limits.LINK_REDIAL_GRACE_MS`)."""

    def peer_message(self, peer: BrokerId, channel: int, payload: bytes) -> None:
        """One whole message. Order holds within a link's life and channel; messages may be lost, never repeated."""


class PeerNet(Protocol):
    """One link per peer. Never blocks; never raises."""

    def start(self, sink: PeerSink) -> None: ...

    def send(self, peer: BrokerId, channel: int, payload: bytes) -> bool:
        """Queue one message (channels: `links.channels`). False: no link, or the channel is over its high-water
        mark."""

    def is_up(self, peer: BrokerId) -> bool: ...
    def set_hello(self, hello: bytes) -> None:
        """The handshake record for links made from now on."""
