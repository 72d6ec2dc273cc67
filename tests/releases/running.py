"""Which release a replica runs, and a replica replaced by another release's."""

import signal
from collections.abc import Callable
from importlib.metadata import version

from tests.cluster import MusterCluster, wait_until
from tests.processes import has_ended
from tests.releases.life import REPLICAS
from tests.releases.release import Release


def start(cluster: MusterCluster, release: Release | None) -> None:
    """All replicas by that release, None: today's."""
    cluster.environment = None if release is None else release.environment
    cluster.start(fresh=False)
    assert [runs_today(cluster, replica) for replica in range(REPLICAS)] == [release is None] * REPLICAS


def kill(cluster: MusterCluster) -> None:
    """All replicas at once, in the middle of whatever they do."""
    for replica in range(REPLICAS):
        cluster.kill(replica)
    cluster.stop()


def replace(
    cluster: MusterCluster, replica: int, release: Release | None, meanwhile: Callable[[], None] | None = None
) -> None:
    """Drained and ended, and started again by that release, until all are ready; `meanwhile` while it is away."""
    pid = cluster.pid(replica)
    cluster.kill(replica, signal.SIGTERM)
    # Not by its port: that is closed while the process still has the folder.
    wait_until("it is gone", lambda: has_ended(pid), 60)
    if meanwhile is not None:
        meanwhile()
    cluster.environment = None if release is None else release.environment
    cluster.start_replica(replica)
    wait_until("all are ready", lambda: all(cluster.probe(n, "/readyz") == 200 for n in range(REPLICAS)), 30)
    assert runs_today(cluster, replica) == (release is None)


def runs_today(cluster: MusterCluster, replica: int) -> bool:
    """By the version that the replica says; 7d8ab59 says none."""
    return cluster.status(replica).get("version") == version("muster")


def levels(cluster: MusterCluster) -> set[int]:
    return {int(cluster.status(replica)["feature_level"]) for replica in range(REPLICAS)}
