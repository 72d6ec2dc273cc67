"""The whole runbook on real processes: an entry that nobody can apply is in all logs; it is shown, agreed to be passed
over, and after restarts the group serves. One replica is away while it is agreed: it stops at the entry once more,
since it has not heard of it, and is sent the others' state.

No client can bring such an entry about any more, so it is written into the logs of stopped replicas, as a release with
another idea of a record would have.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.cli.exits import Exit
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import WAL_BYTES_MAX, WAL_FILE_BYTES
from muster_coordinator.raft.messages import Entry, EntryKind
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica.bootstrap.identity import load_cluster
from muster_coordinator.runtime.disk import OsDisk
from muster_coordinator.storage.contract import GroupWrites
from muster_coordinator.storage.wal import Wal

from tests.cluster import MusterCluster, wait_until
from tests.raw_client import RawClient
from tests.raw_group import commit, find_coordinator

pytestmark = pytest.mark.integration
GROUP = GroupNo(1)
KEYLESS = encode_batch(((None, b"no key"),), timestamp_ms=1)


def muster(cluster: MusterCluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "muster_coordinator.cli.main", "cluster", *words, "--dev", str(cluster.folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def append_everywhere(cluster: MusterCluster) -> None:
    """The same committed entry at the end of every replica's log of the group. The replicas are stopped."""
    wals = []
    for replica in range(cluster.replicas):
        disk = OsDisk(str(cluster.folder / f"replica-{replica}" / "data"))
        _, record = load_cluster(disk)
        assert record is not None
        uuid = record.uuid_of(replica)
        assert uuid is not None
        cluster_uuid = hashlib.blake2b(record.cluster_id.encode(), digest_size=16).digest()
        size = {"file_bytes": WAL_FILE_BYTES, "bytes_max": WAL_BYTES_MAX}
        wals.append(Wal.open(disk, "wal-offsets", node_uuid=uuid, cluster_uuid=cluster_uuid, **size))
    groups = [wal.groups()[GROUP] for wal in wals]
    assert len({group.last_index for group in groups}) == 1, "they stopped in step"
    for wal, group in zip(wals, groups, strict=True):
        last = group.last_index
        term = wal.term_at(GROUP, last)
        assert term is not None
        entry = Entry(term, last + 1, int(EntryKind.NORMAL), KEYLESS)
        wal.stage(GroupWrites(GROUP, group.hard_state._replace(commit=last + 1), (entry,)))
        job = wal.take_job()
        assert job is not None
        job()
        wal.job_done()
        wal.close()


def committed(cluster: MusterCluster, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        return consumer.committed([TopicPartition("t", 0)], timeout=30)[0].offset
    finally:
        consumer.close()


@pytest.mark.timeout(180)
def test_an_entry_that_nobody_can_apply_is_shown_and_passed_over(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "cluster", partitions=1) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("t", 1)])["t"].result(60)
        del admin
        _, host, port = find_coordinator(cluster.bootstrap, "g")
        with RawClient(host, port) as client:
            assert commit(client, "g", "t", {0: 17}) == {0: 0}
        assert cluster.stop() == 0
        append_everywhere(cluster)
        cluster.start(fresh=False)
        wait_until(
            "all stopped at it",
            lambda: all(cluster.admin(n, "/v1/stopped-entries")[1]["entries"] for n in range(cluster.replicas)),
            30,
        )
        shown = muster(cluster, "stopped-entries", "--group", "1", "--output", "json")
        assert shown.returncode == 0, shown.stderr
        (row, *others) = json.loads(shown.stdout)
        assert len(others) == 2
        assert {one["sha256"] for one in others} == {row["sha256"]}
        table = muster(cluster, "stopped-entries", "--group", "1")
        assert "no key" in table.stdout
        assert "cannot be applied" in table.stderr

        named = ["--group", "1", "--index", str(row["index"]), "--sha256"]
        other = muster(cluster, "skip-entry", *named, "0" * 64, "--execute")
        assert (other.returncode, "no replica stopped" in other.stderr) == (Exit.REFUSED, True)
        dry = muster(cluster, "skip-entry", *named, row["sha256"][:12])
        assert (dry.returncode, "--execute does it" in dry.stdout) == (0, True)
        assert not any(e["skipped"] for e in cluster.admin(0, "/v1/stopped-entries")[1]["entries"])
        cluster.kill(2)
        done = muster(cluster, "skip-entry", *named, row["sha256"][:12], "--execute")
        assert done.returncode == 0, done.stderr
        assert "Restart every replica" in done.stdout
        told = [entry for n in cluster.alive() for entry in cluster.admin(n, "/v1/stopped-entries")[1]["entries"]]
        assert any(entry["skipped"] for entry in told)
        assert cluster.stop() == 0
        cluster.start(fresh=False)
        assert committed(cluster, "g") == 17
        _, host, port = find_coordinator(cluster.bootstrap, "g")
        with RawClient(host, port) as client:
            assert commit(client, "g", "t", {0: 18}) == {0: 0}
        wait_until(
            "the state is that of all",
            lambda: all(cluster.admin(n, "/v1/stopped-entries")[1]["entries"] == [] for n in range(cluster.replicas)),
            60,
        )
