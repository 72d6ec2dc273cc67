"""Requests at the extremes leave nothing in memory but what they stored: 2,000 here, 120,000 in the nightly.

Those that make topics are left out, and group names repeat: what is stored is bounded, so memory has to be, too. (At
7d8ab59 a replica grew from 108 to 332 MB and kept it.)
"""

import os
from pathlib import Path
from random import Random

import pytest
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.cluster import MusterCluster
from tests.faults.soak import Point, growth_bytes, resident_bytes
from tests.fuzz.sane import TOPICS, Known
from tests.fuzz.wires import Wires, frame
from tests.integration.test_hostile_requests import settled
from tests.integration.test_many_raft_groups import create_topic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1_800)]

REQUESTS = int(os.environ.get("MUSTER_SOAK_REQUESTS", "2000"))
"""To each of three replicas."""
WARM = REQUESTS // 3
EVERY = REQUESTS // 6
GROWTH_BYTES_MAX = 32 << 20
SETTLED_S = 300
"""The soak may run beside other work, at the lowest priority; what it measures is memory."""
MAKE_TOPICS = frozenset((Api.CREATE_TOPICS, Api.DELETE_TOPICS, Api.CREATE_PARTITIONS))


def test_memory_stays_within_32_mib_after_the_first_requests(tmp_path: Path) -> None:
    """Without the limit of new connections a second: that one paces, and says nothing of memory."""
    with MusterCluster(tmp_path / "data", settings={"max.connection.creation.rate": "1000000"}) as cluster:
        for number in range(TOPICS):
            create_topic(cluster, f"t{number}")
        rand, known = Random(16), Known()
        apis = sorted(set(VERSIONS) - MAKE_TOPICS)
        wires = [Wires(cluster.client_port(replica)) for replica in range(3)]
        pids = [cluster.pid(replica) for replica in range(3)]
        points: list[list[Point]] = [[], [], []]
        sent = 0
        while sent < REQUESTS:
            api = rand.choice(apis)
            made = frame(rand, known, api, rand.randint(VERSIONS[api].min, VERSIONS[api].max))
            if made is None:
                continue
            sent += 1
            for wire in wires:
                wire.send(made[0], sane=made[1])
            if sent % EVERY == 0:
                # What is in the making is bounded elsewhere: tests/integration/test_held_requests.py
                settled(cluster, SETTLED_S)
                for found, pid in zip(points, pids, strict=True):
                    found.append(Point(sent, resident_bytes(pid)))
        for wire in wires:
            wire.close()
        assert [cluster.pid(replica) for replica in range(3)] == pids
        for replica, found in enumerate(points):
            told = ", ".join(f"{one.done}: {one.rss_bytes / 2**20:.0f} MiB" for one in found)
            print(f"replica {replica}: {told}")
        for found in points:
            grown = growth_bytes(found, WARM)
            assert grown <= GROWTH_BYTES_MAX, f"{grown / 2**20:.1f} MiB more after {WARM:,} requests: {found}"
