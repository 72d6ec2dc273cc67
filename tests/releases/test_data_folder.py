"""Data folders of an earlier release, opened by today's and by that one in turns until the feature level is raised."""

import re
import signal
import subprocess
import sys

import pytest
from muster_coordinator import exits
from muster_coordinator.replica.settings import FEATURE_LEVEL

from tests.cluster import MusterCluster, wait_until
from tests.releases.life import more_life
from tests.releases.oracle import Oracle, check
from tests.releases.release import Release
from tests.releases.running import kill, levels, start

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FINALIZE = "muster.feature.finalize.ms"
REFUSED = r"UnsupportedFormat: (log command kind 3 is unknown|checkpoint \S+: version 2, this release knows 1)"
"""What of level 2 the release of level 1 meets first."""


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

    cluster.settings[FINALIZE] = "1000"
    start(cluster, None)
    check(cluster.bootstrap, known)
    wait_until("the level is raised", lambda: levels(cluster) == {FEATURE_LEVEL}, 30)
    more_life(cluster.bootstrap, known, 3)
    check(cluster.bootstrap, known)
    if old.level < FEATURE_LEVEL:
        refused(cluster, old)
    else:
        goes_back(cluster, old)
    assert levels(cluster) == {FEATURE_LEVEL}
    check(cluster.bootstrap, known)


def goes_back(cluster: MusterCluster, old: Release) -> None:
    """A release of the same level: nothing was written that it cannot read."""
    kill(cluster)
    start(cluster, old)


def refused(cluster: MusterCluster, old: Release) -> None:
    """One replica of the older level; it does not start, and says why. Today's goes on with its folder."""
    cluster.kill(0, signal.SIGTERM)
    wait_until("it is gone", lambda: cluster.probe(0, "/livez") == 0, 30)
    code, said = ended(cluster, 0, old)
    assert (code, f"unknown key {FINALIZE}" in said) == (exits.CONFIG, True), said
    config = cluster.folder / "replica-0" / "server.properties"
    config.write_text("".join(line for line in config.read_text().splitlines(True) if not line.startswith(FINALIZE)))
    code, said = ended(cluster, 0, old)
    assert code == exits.CORRUPTION, said
    assert re.search(REFUSED, said), said
    cluster.start_replica(0)


def ended(cluster: MusterCluster, replica: int, release: Release) -> tuple[int, str]:
    """Exit code and last words of a replica of that release."""
    config = cluster.folder / f"replica-{replica}" / "server.properties"
    command = [sys.executable, "-m", "muster_coordinator.cli.main", "server", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, env=release.environment, timeout=60, check=False)
    return done.returncode, done.stderr[-3000:]
