"""Which release a replica runs, and a replica replaced by another release's."""

import signal
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.cluster import MusterCluster, wait_until
from tests.processes import has_ended
from tests.releases.life import REPLICAS
from tests.releases.release import Release

NAMED_SECONDS_MAX = 60
ASKED_SECONDS_MAX = 5


def form(cluster: MusterCluster, release: Release) -> None:
    """A new cluster of that release, until each replica names all of them to clients.

    7d8ab59 says that it is ready before that. A topic with three replicas is refused then; and while it names no broker
    at all, a librdkafka that has asked three times does not ask again for five minutes (311b3ae2 mended it).
    """
    cluster.environment = release.environment
    cluster.start()
    for replica in range(REPLICAS):
        wait_until("it names all replicas", lambda replica=replica: _names_all(cluster, replica), NAMED_SECONDS_MAX)


def _names_all(cluster: MusterCluster, replica: int) -> bool:
    """A new client each time: see `form`."""
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster.client_port(replica)}", "log_level": 0})
    with suppress(KafkaException):
        return len(client.list_topics(timeout=ASKED_SECONDS_MAX).brokers) == REPLICAS
    return False


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
