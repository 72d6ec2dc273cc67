"""Everything that the cores may not do themselves: time, randomness, disk, threads, peers.

The product implements these ports in `muster_coordinator.runtime` (uvloop, threads, files, TCP); the simulator in
`tests/sim` implements them on virtual time. Code that bypasses them cannot be simulated; the import contracts
(pyproject.toml) and `tests/tidy` refuse it.

Everything here is called by one thread, except the body of an I/O job. No port raises into the loop from a callback.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from muster_coordinator.ids import BrokerId

T = TypeVar("T")


Notice = Callable[[str, Mapping[str, object], BaseException | None], None]
"""Reports a fault to the operator: what happened, in constant words; the details; the error with its trace. It is
logged, and repetitions may be left out; no behaviour may depend on it."""


def unnoticed(_what: str, _details: Mapping[str, object], _error: BaseException | None) -> None:
    """A `Notice` that drops the report."""


class Timer(Protocol):
    """A scheduled call that has not been made yet."""

    def cancel(self) -> None:
        """Cancel the call; no effect when it has already been made."""


class Clock(Protocol):
    """Two kinds of time, never converted into each other."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back; for deadlines, sessions, leases. Never stored."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump in both directions. For record timestamps only."""


class Loop(Clock, Protocol):
    """The single thread of a replica, as a queue of calls."""

    def call_soon(self, call: Callable[[], None]) -> None:
        """Run `call` after the calls that are already queued, in this or the next turn."""

    def call_at(self, monotonic_ms: int, call: Callable[[], None]) -> Timer:
        """Run `call` once, not before `monotonic_ms`."""

    def submit(self, queue: str, job: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run the blocking `job` off the loop; jobs of one queue run in order, one at a time. Then `done(result)` runs
        on the loop.

        An exception of the job is passed to `done`, not raised. A job may use only its arguments: immutable values and
        the `Disk`. For the queues see `runtime.limits.IO_QUEUES`.
        """

    def submit_paced(
        self, queue: str, steps: Generator[None, None, T], done: Callable[[T | BaseException], None]
    ) -> None:
        """As `submit`, for a job that computes for long: after each step the loop can get the interpreter, which a
        thread that never waits releases only every few milliseconds. The result is the generator's return value."""


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
    """If two calls for a name return equal values, it is the same file, and it was not written in between."""

    size: int
    changed_ns: int
    inode: int


class Disk(Protocol):
    """The data folder of one replica. Paths are relative, `/`-separated. Blocking; raises the kernel's OSError.

    Creating, renaming and unlinking are durable only after `sync_dir` of the folder.
    """

    def open(self, path: str, *, create: bool = False) -> File: ...
    def exists(self, path: str) -> bool: ...
    def identity(self, path: str) -> FileIdentity:
        """Identity of the file with this name; equal for all names of the same file."""

    def listdir(self, path: str) -> list[str]:
        """Sorted names; an empty list for a folder that does not exist."""

    def mkdir(self, path: str, *, durable: bool = True) -> None:
        """Create with parents; no effect when it exists. With `durable` parents are synced, else the caller must."""

    def rename(self, source: str, target: str) -> None: ...
    def link(self, source: str, target: str) -> None:
        """Create another name of the same file; `target` must not exist. Some file systems do not support it: EPERM,
        EOPNOTSUPP, ENOSYS or EMLINK."""

    def unlink(self, path: str) -> None: ...
    def rmtree(self, path: str) -> None: ...
    def sync_dir(self, path: str) -> None: ...
    def free_bytes(self) -> int: ...


class PeerSink(Protocol):
    """The replica's handlers of what arrives on the links. Called on the loop."""

    def peer_up(self, peer: BrokerId, hello: bytes) -> None:
        """A link is established; `hello` is the peer's handshake record (`links.handshake`)."""

    def peer_down(self, peer: BrokerId) -> None:
        """The link was lost and not re-established within `limits.LINK_REDIAL_GRACE_MS` (decision 17)."""

    def peer_message(self, peer: BrokerId, channel: int, payload: bytes) -> None:
        """One complete message. Messages of one link's life and channel arrive in order; they may be lost, never
        repeated."""


class PeerNet(Protocol):
    """One link per peer. Never blocks; never raises."""

    def start(self, sink: PeerSink) -> None: ...

    def send(self, peer: BrokerId, channel: int, payload: bytes) -> bool:
        """Queue one message (channels: `links.channels`). False: there is no link, or the channel is above its
        high-water mark."""

    def is_up(self, peer: BrokerId) -> bool: ...
    def meet(self, peer: BrokerId, host: str, port: int) -> None:
        """From now on there is to be a link to this replica, too; it is not configured, or was at another address.
        Before `start` it may be called too."""

    def set_hello(self, hello: bytes) -> None:
        """Set the handshake record for links that are established from now on."""
