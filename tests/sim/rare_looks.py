"""Hours of virtual time without the timers of tenths of a second, which are nine tenths of such a run's work.

What looks at its state every 100 to 1,000 ms looks every heartbeat of a cluster whose heartbeats are as rare as its
hours are many. Nothing that these runs judge is shorter than a minute.
"""

import pytest
from muster_coordinator.raft.timing import Timing
from muster_coordinator.replica import group_manager
from muster_coordinator.replica.maintenance import balancer, hand_over, membership, preferred
from muster_coordinator.replica.snapshots import checkpoints, install

TIMING = Timing(heartbeat_ms=3_000, election_min_ms=20_000, election_max_ms=40_000)
TIMERS = (
    (group_manager, "WRITE_OUT_MS"),
    (group_manager, "PROOF_MS"),
    (balancer, "LOOK_MS"),
    (hand_over, "LOOK_MS"),
    (membership, "LOOK_MS"),
    (preferred, "LOOK_MS"),
    (checkpoints, "LOOK_MS"),
    (install, "HEAL_MS"),
)


@pytest.fixture(autouse=True)
def rare_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """For whoever imports it."""
    for module, name in TIMERS:
        assert getattr(module, name) < TIMING.heartbeat_ms
        monkeypatch.setattr(module, name, TIMING.heartbeat_ms)
