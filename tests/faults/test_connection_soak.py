"""Connections that end leave nothing in memory: 25,000 here, 200,000 in the nightly (MUSTER_SOAK_CONNECTIONS)."""

import os
from pathlib import Path

import pytest

from tests.cluster import MusterCluster
from tests.faults.soak import connect_many, growth_bytes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

CONNECTIONS = int(os.environ.get("MUSTER_SOAK_CONNECTIONS", "25000"))
WARM = min(20_000, CONNECTIONS // 5)
EVERY = 1_000
GROWTH_BYTES_MAX = 16 << 20


def test_memory_stays_within_16_mib_after_the_first_connections(tmp_path: Path) -> None:
    """Without the limit of new connections a second: that one paces, and says nothing of memory."""
    with MusterCluster(tmp_path / "data", settings={"max.connection.creation.rate": "1000000"}) as cluster:
        points = list(connect_many(cluster.client_port(0), CONNECTIONS, EVERY, cluster.pid(0)))
        assert points[-1].done == CONNECTIONS
        grown = growth_bytes(points, WARM)
        for line in (f"{one.done:>7} connections: {one.rss_bytes / 2**20:.1f} MiB" for one in points[::5]):
            print(line)
        assert cluster.probe(0, "/readyz") == 200
    assert grown <= GROWTH_BYTES_MAX, f"{grown / 2**20:.1f} MiB more after {WARM:,} connections: {points}"
