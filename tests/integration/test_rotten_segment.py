"""A byte of a stored segment changes under a real process: its readers get what was written, and the file heals."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster import MusterCluster, wait_until
from tests.integration.failover_load import records_of
from tests.live_files import live_paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

SETTINGS = {
    "segment.bytes": "1048576",
    "muster.segment.flush.ms": "500",
    "muster.leadership.takeback.ms": "1000",
}
TOPIC, RECORDS = "rotten", 4_000


@pytest.fixture
def small_segments(tmp_path: Path) -> Iterator[MusterCluster]:
    settings = {key: value for key, value in SETTINGS.items() if key != "segment.bytes"}
    with MusterCluster(tmp_path / "data", partitions=3, settings=settings) as it:
        yield it


def segments(cluster: MusterCluster, replica: int) -> list[Path]:
    return live_paths(cluster.folder / f"replica-{replica}", f"**/{TOPIC}-0/*.log")


def row(cluster: MusterCluster, replica: int) -> dict:
    _, document = cluster.admin(replica, "/v1/partitions")
    return next(one for one in document["partitions"] if one["topic"] == TOPIC)


def leader(cluster: MusterCluster) -> int | None:
    found = [replica for replica in cluster.alive() if row(cluster, replica)["role"] == "leader"]
    return found[0] + 1 if len(found) == 1 else None


def flushed(segment: Path) -> int:
    """When a flush that has this segment wrote its index; 0: none did."""
    index = segment.with_suffix(".sidx")
    return index.stat().st_mtime_ns if index.exists() else 0


def metric(cluster: MusterCluster, replica: int, name: str) -> float:
    return next(float(line.split()[-1]) for line in cluster.metrics(replica).splitlines() if line.startswith(name))


def test_a_flipped_byte_is_never_served_and_is_fetched_again(small_segments: MusterCluster) -> None:
    cluster = small_segments
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    made = NewTopic(TOPIC, 1, -1, config={"segment.bytes": SETTINGS["segment.bytes"]})
    admin.create_topics([made], operation_timeout=20)[TOPIC].result(20)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "batch.size": 20_000})
    values = [f"{n:06d} " + "x" * 1_000 for n in range(RECORDS)]
    for value in values:
        producer.produce(TOPIC, value)
    assert producer.flush(60) == 0
    wait_until("sealed and flushed", lambda: all(len(segments(cluster, n)) > 3 for n in range(3)), 20)
    rotten = wait_until("a leader", lambda: leader(cluster), 20) - 1
    first = wait_until("the last segment is flushed", lambda: flushed(segments(cluster, rotten)[-1]), 20)
    # Only what the durable mark covers stays as it is: a start writes the rest anew from the WAL. The next flush of the
    # same log begins when the mark of the first is on its way to the WAL.
    values.append("one more")
    producer.produce(TOPIC, values[-1])
    assert producer.flush(60) == 0
    wait_until("it is flushed again", lambda: flushed(segments(cluster, rotten)[-1]) > first, 20)
    cluster.kill(rotten, signal.SIGKILL)
    path = segments(cluster, rotten)[1]
    sound = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(300_000)
        file.write(bytes([sound[300_000] ^ 0x01]))
    cluster.start_replica(rotten)
    wait_until("it leads again", lambda: leader(cluster) == rotten + 1, 30)

    assert records_of(cluster.bootstrap, TOPIC, 0) == values
    wait_until("repaired", lambda: metric(cluster, rotten, "muster_repaired_segments_total") == 1, 30)
    assert path.read_bytes() == sound
    assert row(cluster, rotten)["damaged"] == []
    assert metric(cluster, rotten, "muster_damaged_segments") == 0
    output = cluster.output.read_text(errors="replace") + "".join(
        log.read_text(errors="replace") for log in cluster.folder.rglob("server.log")
    )
    assert "stored batches are damaged" in output
    assert path.name in output
    assert "a damaged segment was fetched again from a peer" in output
    names = [[file.name for file in segments(cluster, n)] for n in range(3)]
    for name in sorted(set(names[0]) & set(names[1]) & set(names[2]))[:-1]:
        copies = {next(f for f in segments(cluster, n) if f.name == name).read_bytes() for n in range(3)}
        assert len(copies) == 1, name
    assert records_of(cluster.bootstrap, TOPIC, 0) == values
