"""A real follower that is far behind comes level over a slow link while its partition is written to."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.far_behind import TOPIC, catch_up
from tests.cluster import MusterCluster

pytestmark = [pytest.mark.integration, pytest.mark.paced, pytest.mark.slow, pytest.mark.timeout(180)]

MIB = 1 << 20
BEHIND_BYTES = 64 * MIB
WRITE_RATE, LINK_RATE = 5_000_000, 7_500_000
WITHIN_S = 120
"""What it lacks and what comes meanwhile fill the link for 27 s; the rest is for machines with other work."""
LEVEL_ENTRIES = 50
"""A quarter of a second's."""
SETTINGS = {
    "muster.wal.file.bytes": str(4 * MIB),
    "muster.wal.max.bytes": str(128 * MIB),
    "muster.checkpoint.bytes": str(8 * MIB),
    "muster.raft.trailing.entries": "20",
}
"""Its leader has compacted what it lacks, and compacts on while it fetches."""


def test_a_follower_64_mib_behind_comes_level_by_one_transfer_over_a_link_of_half_as_much_again_as_is_written(
    tmp_path: Path,
) -> None:
    with MusterCluster(tmp_path / "behind", partitions=3, settings=SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, -1)])[TOPIC].result(20)
        caught = catch_up(
            cluster,
            missed_bytes=BEHIND_BYTES,
            write_rate=WRITE_RATE,
            link_rate=LINK_RATE,
            level_entries=LEVEL_ENTRIES,
            within_s=WITHIN_S,
            say=print,
        )
    assert caught.installed == 1, "the log alone did not do, and what came meanwhile was still there"
    assert caught.of_lacked <= 1.2
