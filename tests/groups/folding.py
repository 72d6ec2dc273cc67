"""What an offsets log says to who knows nothing else: a fold of its batches, and what of that is any reader's."""

from collections.abc import Iterable
from random import Random

from muster_coordinator.groups.effects import AppliedBatch, Now
from muster_coordinator.groups.shard import GroupShard
from muster_coordinator.groups.state.shard_state import ShardState
from muster_coordinator.records.batch import parse_header

from tests.groups.host import WALL
from tests.made_settings import shard_config


def folded(batches: Iterable[bytes]) -> ShardState:
    shard = GroupShard(shard_config(), Random(0))
    for batch in batches:
        header = parse_header(batch)
        shard.apply(Now(0, WALL), AppliedBatch(header.leader_epoch, header.base_offset, batch))
    return shard._core.state


def meaning(state: ShardState) -> tuple[object, ...]:
    """All but the producers, which are no reader's."""
    offsets = {
        (group, topic, partition): row
        for group in list(state.offsets.groups())
        for topic, partition, row in state.offsets.table(group).rows()
    }
    return state.groups, offsets, state.pending_offsets.rows(), state.raw
