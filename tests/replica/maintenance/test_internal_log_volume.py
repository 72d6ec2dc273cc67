"""An hour of virtual time of one offsets partition of a cluster with 100,000 groups, all bytes 256 times smaller than
their defaults: history, segments, the rate of the cleaner. More than three times what history keeps is written."""

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.events import INSTALLED, LOG_CLEANED
from muster_coordinator.limits import KIB

from tests.made_settings import node_settings
from tests.replica.cluster import SimCluster, commit_request
from tests.replica.maintenance.test_internal_logs import GROUP, assert_whole_state, log_of, replayed
from tests.sim.loop import World
from tests.sim.rare_looks import TIMING, rare_looks

__all__ = ("rare_looks",)
pytestmark = [pytest.mark.computes, pytest.mark.slow, pytest.mark.timeout(600)]

DEFAULTS = node_settings()
SMALLER = 256
HISTORY_BYTES = DEFAULTS.offsets_history_bytes // SMALLER
SEGMENT_BYTES = DEFAULTS.offsets_segment_bytes // SMALLER
GROUPS = 100_000 // DEFAULTS.offsets_partitions
HOUR_MS = 3_600_000
STEPS = 480
STEP_MS = HOUR_MS // STEPS
COMMITS = 125
"""Of a step, all at once."""


def test_an_hour_of_100_000_groups_stays_within_the_history_and_one_segment() -> None:
    cluster = SimCluster(
        World(1),
        partitions=1,
        timing=TIMING,
        wal_file_bytes=256 * KIB,
        checkpoint_bytes=512 * KIB,
        trailing_entries=100,
        offsets_history_bytes=HISTORY_BYTES,
        offsets_segment_bytes=SEGMENT_BYTES,
        cleaner_rate=DEFAULTS.cleaner_rate // SMALLER,
    )
    cluster.start(ms=300_000)
    leader = cluster.wait_leader(GROUP, 120_000)
    assert cluster.commit(leader, 0, "once", 7) == Code.NONE
    late = next(int(broker) for broker in cluster.brokers if broker != leader)
    cluster.kill(late)
    largest_bytes = written_bytes = committed = 0
    for step in range(STEPS):
        leader = cluster.wait_leader(GROUP, 120_000)
        before = log_of(cluster, leader).size_bytes()
        numbers = range(step * COMMITS, (step + 1) * COMMITS)
        answers = [
            cluster.ask_later(leader, 0, commit_request(f"group-{n % GROUPS}", n, "topic" * 20)) for n in numbers
        ]
        cluster.world.run_until("commits", lambda answers=answers: all(answers), 30_000)
        committed += sum(one[0].topics[0][1][0][1] == Code.NONE for one in answers)
        written_bytes += max(0, log_of(cluster, leader).size_bytes() - before)
        cluster.world.run_for(STEP_MS)
        for broker in cluster.nodes:
            largest_bytes = max(largest_bytes, log_of(cluster, broker).size_bytes())
    assert committed == STEPS * COMMITS, "nothing was refused for what the cleaner did"
    assert written_bytes > 3 * HISTORY_BYTES, written_bytes
    assert largest_bytes <= HISTORY_BYTES + SEGMENT_BYTES, (largest_bytes, HISTORY_BYTES, SEGMENT_BYTES)
    assert len(cluster.told(LOG_CLEANED, leader)) > 5
    cluster.restart(late)
    cluster.world.run_until("installed", lambda: cluster.told(INSTALLED, late), 600_000)
    cluster.wait_ready(ms=300_000)
    assert_whole_state(cluster)
    assert {replayed(cluster, late)} == {state for _, state in cluster.hashes(GROUP)}
    assert cluster.fetch(cluster.wait_leader(GROUP, 120_000), 0, "once") == (Code.NONE, 7)
