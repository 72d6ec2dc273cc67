"""The state machine of Raft group 0: applies controller commands in log order and holds the cluster's image.

Problem: brokers, topics, routing, producer id blocks and the feature level must be the same on every replica (decision
14). Mechanism: COMMAND entries only. `apply_command` decodes one, `transitions` computes the next immutable image, and
the machine replaces its own: a reader that took an image keeps a consistent one. Durable state = image + order of
deletions, and the checkpoint has both. What it does not do: propose, forward or wait (`replica`), validate config
values (`topic_configs`), place voters (later).
"""

import hashlib
from dataclasses import replace

from muster_coordinator.controller import limits
from muster_coordinator.controller.checkpoint import ControllerCheckpoint, decode_checkpoint
from muster_coordinator.controller.codec import decode_command
from muster_coordinator.controller.commands import CommandResult
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.transitions import transition
from muster_coordinator.groups.effects import CheckpointBody, CheckpointImage


class ControllerMachine:
    """One replica's copy of the controller state. All calls are made on the loop."""

    __slots__ = ("_applied", "_cluster", "_deleted")

    def __init__(self) -> None:
        self._applied = 0
        self._cluster: ClusterImage | None = None
        self._deleted: tuple[bytes, ...] = ()

    @property
    def cluster(self) -> ClusterImage | None:
        """The newest image; None until `FormCluster` is applied here. Never changed, but replaced at apply."""
        return self._cluster

    @property
    def applied(self) -> int:
        """Raft index of the last applied COMMAND."""
        return self._applied

    def apply_command(self, index: int, data: bytes) -> CommandResult:
        """Apply the COMMAND entry at Raft `index`. The result is the same on every replica.

        Raises `UnsupportedFormat` for a command of a newer binary and `Corruption` for malformed bytes. The replica
        must stop then: skipping the entry would make its state diverge from the others'.
        """
        assert index > self._applied, (index, self._applied)
        before = self._cluster
        after, result = transition(before, decode_command(data))
        self._applied = index
        if after is None:
            return result
        if before is not None and after.deleted_topic_ids is not before.deleted_topic_ids:
            after = self._remember_deleted(before, after)
        self._cluster = replace(after, applied=index)
        return result

    def _remember_deleted(self, before: ClusterImage, after: ClusterImage) -> ClusterImage:
        """Keep the newest `DELETED_TOPIC_IDS_MAX` ids: shards use an id within minutes, but the log is unbounded."""
        self._deleted += tuple(after.deleted_topic_ids - before.deleted_topic_ids)
        if len(self._deleted) <= limits.DELETED_TOPIC_IDS_MAX:
            return after
        self._deleted = self._deleted[-limits.DELETED_TOPIC_IDS_MAX :]
        return replace(after, deleted_topic_ids=frozenset(self._deleted))

    def image(self) -> CheckpointImage:
        """An immutable snapshot for the checkpoint; O(1)."""
        return ControllerCheckpoint(self._applied, self._cluster, self._deleted)

    def restore(self, body: CheckpointBody) -> None:
        """Replace the whole state by a checkpoint's. Raises `UnsupportedFormat` and `Corruption` as `apply_command`."""
        state = decode_checkpoint(body)
        self._applied, self._cluster, self._deleted = state.applied, state.cluster, state.deleted

    def state_hash(self) -> str:
        """Hex digest of the durable state; equal on all replicas at the same applied index."""
        return hashlib.blake2b(self.image().encode().head, digest_size=16).hexdigest()
