"""The interface between a group shard and its host: the shard's calls, and the effects it asks for.

A shard is one offsets partition's groups: a pure state machine. `handle`, `lead`, `resign`, `on_timer`, `applied` and
`dropped` return effects; `apply` is the only call that changes durable state, on leader and followers alike
(architecture "State changes only by apply"). Time comes in as `Now`; ids as a `Rand`. The host
(`replica.partitions.shards`) owns ordering:

* `Append` is proposed at once, in the same synchronous turn and term as the `handle` that returned it (decision 8).
  `applied(now, token)` follows directly after `apply` when the entry is applied here in the same term.
  `dropped(now, token, code)` is called when the entry was certainly not appended, or when its fate is unknown because
  leadership was lost.
* `Answer` may leave at once: the shard returns it only after everything that it promises was applied.
* Every ticket passed to `handle` gets exactly one `Answer`, also on `resign`.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import GroupAnswer, GroupRequest


class Now(NamedTuple):
    """Both clocks, read at one instant."""

    monotonic_ms: int
    wall_ms: int


class Answer(NamedTuple):
    """Send this to the request that holds `ticket`."""

    ticket: int
    answer: GroupAnswer


class Append(NamedTuple):
    """Propose these records as one RecordBatch. `token` comes back in `applied` or `dropped`."""

    token: int
    records: tuple[tuple[bytes | None, bytes | None], ...]
    """(key, value); value None is a tombstone."""
    timestamp_ms: int
    producer_id: int = -1
    producer_epoch: int = -1
    transactional: bool = False
    control: bool = False


Effect = Answer | Append


class AppliedBatch(NamedTuple):
    """One NORMAL entry as `apply` receives it."""

    term: int
    base_offset: int
    batch: bytes
    """The whole RecordBatch v2, base offset and epoch stamped."""


class CheckpointImage(Protocol):
    """An immutable snapshot of one state machine, taken in one turn; encoding it may run on an I/O thread."""

    def encode(self) -> "CheckpointBody":
        """Deterministic: equal state gives equal bytes on every replica."""
        ...

    def parts(self) -> "CheckpointParts":
        """As `encode`, but blobs are encoded one at a time."""
        ...


class CheckpointBody(NamedTuple):
    """`head` is read at start; `blobs` are read on demand (decision 20). Keys are unique, e.g. group ids."""

    head: bytes
    blobs: tuple[tuple[bytes, bytes], ...]


class CheckpointParts(NamedTuple):
    """A body whose blobs are encoded on demand, ascending by key."""

    head: bytes
    blobs: Iterator[tuple[bytes, bytes]]

    def whole(self) -> CheckpointBody:
        """The body with all blobs."""
        return CheckpointBody(self.head, tuple(self.blobs))


class Shard(Protocol):
    """Implemented by `groups.shard.GroupShard`."""

    def handle(self, now: Now, ticket: int, request: GroupRequest) -> list[Effect]: ...
    def apply(self, now: Now, entry: AppliedBatch) -> None:
        """Change durable state; must not depend on `now`, which only arms volatile timers on a leader."""

    def applied(self, now: Now, token: int) -> list[Effect]: ...
    def dropped(self, now: Now, token: int, code: Code) -> list[Effect]: ...
    def on_timer(self, now: Now) -> list[Effect]: ...
    def next_deadline_ms(self) -> int | None: ...
    def lead(self, now: Now, term: int) -> list[Effect]:
        """The no-op of `term` is applied here: arm every session anew, from this replica's clock (decision 7)."""
        ...

    def resign(self, now: Now) -> list[Effect]:
        """Leadership is lost: answer every open request with 16, drop all volatile state."""
        ...

    def unprovable(self, now: Now, token: int, error: Exception) -> list[Effect]:
        """An `Append` that `proof.proven_batch` refused was not proposed."""
        ...

    def topic_deleted(self, now: Now, topic_id: bytes) -> list[Effect]:
        """The controller log says that the topic is deleted (decision 27): tombstone offsets committed under its id."""
        ...

    def image(self) -> CheckpointImage: ...
    def restore(self, body: CheckpointBody) -> None: ...
    def state_hash(self) -> str:
        """Hex digest of the durable state; equal on all replicas at the same applied index."""
        ...
