"""Data folders of an earlier release, opened by today's and by that one in turns until the feature level is raised."""

import re
import signal
import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator import exits
from muster_coordinator.replica.settings import FEATURE_LEVEL

from tests.cluster import MusterCluster, wait_until
from tests.releases.life import REPLICAS, more_life
from tests.releases.oracle import Oracle, check
from tests.releases.release import Release
from tests.releases.running import kill, levels, start

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FINALIZE, REDIS = "muster.feature.finalize.ms", "redis.url"
NEW_KEYS = {1: (FINALIZE, REDIS), 3: ()}
"""By the release's level: keys of this test's settings that it does not know."""
REFUSED = {
    1: r"UnsupportedFormat: (log command kind 3 is unknown|checkpoint \S+: version 2, this release knows 1)",
    3: r"UnsupportedFormat: .*controller (command|checkpoint) version 3; this binary knows up to 2",
}
"""What of a later level it meets first."""
OF_STREAMS = {"topic.store": "redis", "redis.stream": "theirs"}
"""Of a topic that an earlier release would take for another one; nobody needs to reach its Redis for that."""


def test_what_was_acknowledged_is_there_by_turns_until_the_level_is_raised(
    cluster: MusterCluster, old: Release, known: Oracle
) -> None:
    start(cluster, None)
    check(cluster.bootstrap, known)
    more_life(cluster.bootstrap, known, 1)
    check(cluster.bootstrap, known)
    assert levels(cluster) == {old.level}
    assert cluster.stop() == 0

    start(cluster, old)
    check(cluster.bootstrap, known)
    more_life(cluster.bootstrap, known, 2)
    kill(cluster)

    cluster.settings |= {FINALIZE: "1000", REDIS: "redis://127.0.0.1:1/0"}
    start(cluster, None)
    check(cluster.bootstrap, known)
    wait_until("the level is raised", lambda: levels(cluster) == {FEATURE_LEVEL}, 30)
    more_life(cluster.bootstrap, known, 3)
    check(cluster.bootstrap, known)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("theirs", 1, REPLICAS, config=OF_STREAMS)])["theirs"].result(60)
    refused(cluster, old)
    admin.delete_topics(["theirs"])["theirs"].result(60)
    assert levels(cluster) == {FEATURE_LEVEL}
    check(cluster.bootstrap, known)


def refused(cluster: MusterCluster, old: Release) -> None:
    """One replica of the older level; it does not start, and says why. Today's goes on with its folder."""
    cluster.kill(0, signal.SIGTERM)
    wait_until("it is gone", lambda: cluster.probe(0, "/livez") == 0, 30)
    config = cluster.folder / "replica-0" / "server.properties"
    code, said = ended(cluster, 0, old)
    if unknown := NEW_KEYS[old.level]:
        assert (code, any(f"unknown key {key}" in said for key in unknown)) == (exits.CONFIG, True), said
        lines = config.read_text().splitlines(keepends=True)
        config.write_text("".join(line for line in lines if not line.startswith(unknown)))
        code, said = ended(cluster, 0, old)
    assert (code, re.search(REFUSED[old.level], said) is not None) == (exits.CORRUPTION, True), said
    cluster.start_replica(0)


def ended(cluster: MusterCluster, replica: int, release: Release) -> tuple[int, str]:
    """Exit code and last words of a replica of that release."""
    config = cluster.folder / f"replica-{replica}" / "server.properties"
    command = [sys.executable, "-m", "muster_coordinator.cli.main", "server", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, env=release.environment, timeout=60, check=False)
    return done.returncode, done.stderr[-3000:]
