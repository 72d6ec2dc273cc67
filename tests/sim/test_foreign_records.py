"""Records of kinds that this release does not implement survive replay, checkpoint and transfer byte for byte.

Decision 9. The batches are a real Kafka's (`tests/golden/make_kip848.py`): groups of the KIP-848 protocol, record types
3 to 8 and 16, with commits between them. Each is proposed as it is, to the log that Muster's own groups use.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from muster_coordinator.ids import FIRST_OFFSETS_GROUP, GroupNo
from muster_coordinator.raft.messages import EntryKind
from muster_coordinator.records.batch import iter_records, parse_header

from tests.records.made import split_batches
from tests.sim.cluster import Cluster
from tests.sim.committers import Committer, Reader
from tests.sim.logs import compare_logs
from tests.sim.test_snapshot_install import SETUP as BASE
from tests.sim.test_snapshot_install import full_replay, installed

SETUP = replace(BASE, seed="foreign", node={**BASE.node, "wal_file_bytes": 64 * 1024, "wal_bytes_max": 1024 * 1024})
GOLDEN = Path(__file__).parents[1] / "golden" / "kip848_offsets_log.bin"
GROUP = GroupNo(FIRST_OFFSETS_GROUP)
FOREIGN = {3, 4, 5, 6, 7, 8, 16}
UNSTAMPED = slice(16, None)
"""Everything behind base offset, length and leader epoch: what a broker may not touch (the length cannot change)."""

pytestmark = [pytest.mark.sim, pytest.mark.timeout(300)]


def golden() -> list[bytes]:
    return split_batches(GOLDEN.read_bytes())


def raw_state(batches: list[bytes]) -> dict[bytes, bytes]:
    """Last value per foreign key."""
    found: dict[bytes, bytes] = {}
    for batch in batches:
        for record in iter_records(batch):
            if record.key is not None and int.from_bytes(record.key[:2], "big") in FOREIGN:
                if record.value is None:
                    found.pop(record.key, None)
                else:
                    found[record.key] = record.value
    return found


def propose_all(cluster: Cluster, batches: list[bytes]) -> None:
    done = []
    for batch in batches:
        leader = cluster.leader_of(GROUP)
        assert leader is not None
        refused = leader.node.host.groups[GROUP].propose(EntryKind.NORMAL, batch, done.append)
        assert refused is None
        cluster.world.run_for(3)
    cluster.world.run_until("all applied", lambda: len(done) == len(batches), 5_000)
    assert all(done)


def check_log(cluster: Cluster, batches: list[bytes]) -> list[bytes]:
    """The golden batches stand in every replica's log in order, untouched behind what a broker stamps."""
    log, differences = compare_logs(cluster, GROUP)
    assert differences == []
    wanted = iter([batch[UNSTAMPED] for batch in batches])
    expected = next(wanted)
    for batch in log:
        if batch[UNSTAMPED] == expected:
            expected = next(wanted, b"")
    assert expected == b"", "a golden batch is missing or changed"
    return log


def check_states(cluster: Cluster, batches: list[bytes], log: list[bytes]) -> None:
    for replica in cluster.replicas:
        group_manager = replica.node.group_manager
        assert group_manager is not None
        assert group_manager.shards[0].shard._core.state.raw == raw_state(batches)
    assert {replica.node.state_hash(GROUP) for replica in cluster.replicas} == {full_replay(cluster, log)}


def test_the_golden_file_holds_every_foreign_kind() -> None:
    kinds: Counter[int] = Counter()
    for batch in golden():
        for record in iter_records(batch):
            if record.value is not None:
                assert record.key is not None
                kinds[int.from_bytes(record.key[:2], "big")] += 1
    assert kinds.keys() >= FOREIGN
    assert {int.from_bytes(key[:2], "big") for key in raw_state(golden())} >= {3, 5, 6, 7, 8, 16}


def test_foreign_records_survive_replay_checkpoint_and_transfer() -> None:
    cluster = Cluster(SETUP)
    cluster.start()
    cluster.world.run_until("serving", cluster.serving, 10_000)
    batches = golden()
    propose_all(cluster, batches)
    cluster.world.run_until("all replicas equal", cluster.settled, 10_000)
    check_states(cluster, batches, check_log(cluster, batches))

    # From the WAL alone.
    for replica in cluster.replicas:
        replica.power_off()
        replica.start()
    cluster.world.run_until("all replicas equal", cluster.settled, 20_000)
    check_states(cluster, batches, check_log(cluster, batches))

    # From a transferred checkpoint.
    behind = cluster.replicas[2]
    behind.kill()
    committer = Committer(cluster, "c", "ours", keys=[("t", p) for p in range(4)], pause_ms=2, reads=0)
    committer.start()
    cluster.world.run_until("commits", lambda: committer.acknowledged >= 1_500, 60_000)
    committer.stop()
    behind.start()
    cluster.world.run_until("all replicas equal", cluster.settled, 30_000)
    assert installed(behind) == 1
    check_states(cluster, batches, check_log(cluster, batches))

    # From the own checkpoints.
    for replica in cluster.replicas:
        assert any(path.startswith(f"checkpoints/{GROUP}/") for path in replica.disk.files())
        replica.power_off()
        replica.start()
    cluster.world.run_until("all replicas equal", cluster.settled, 30_000)
    check_states(cluster, batches, check_log(cluster, batches))
    assert parse_header(check_log(cluster, batches)[-1]).next_offset > len(batches)

    reader = Reader(cluster, "reader", "ours", (("t", 0), ("t", 1)))
    reader.start()
    cluster.world.run_until("reads", lambda: reader.done, 10_000)
