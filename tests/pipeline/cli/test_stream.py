"""`muster pipeline stream` follows a real cluster, ends on SIGTERM, and has made what a batch makes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from muster_pipeline import store
from muster_pipeline.job.build import build
from muster_pipeline.job.live import LiveInput
from muster_pipeline.tables.errors import NothingPublished
from muster_pipeline.transforms.settings import FoldSettings
from muster_pipeline.verify.tables import check, same_rows

from tests.cluster import MusterCluster, wait_until

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900)]
SECONDS_MAX = 300


def commit(admin: AdminClient, offset: int) -> None:
    for group in ("a", "b"):
        asked = [ConsumerGroupTopicPartitions(group, [TopicPartition("t", number, offset) for number in range(2)])]
        wait_until(f"{group} commits", lambda asked=asked, group=group: is_committed(admin, asked, group), 60, 0.5)


def is_committed(admin: AdminClient, asked: list[ConsumerGroupTopicPartitions], group: str) -> bool:
    """The answer has an error for each partition, such as a coordinator that is not there yet; it does not raise."""
    answer = admin.alter_consumer_group_offsets(asked)[group].result(60)
    return all(one.error is None for one in answer.topic_partitions)


def seen(tables: Path) -> int:
    try:
        return store.read("commits", tables).num_rows
    except NothingPublished:
        return 0


def test_a_stream_follows_and_ends_when_asked(java: None, tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "cluster", partitions=2) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 2, replication_factor=3)])["t"].result(60)
        commit(admin, 0)
        tables = tmp_path / "tables"
        command = [sys.executable, "-m", "muster_pipeline", "stream", "--bootstrap", cluster.bootstrap]
        command += ["--tables", str(tables), "--cluster", "c", "--log-end-offsets", "live", "--every-s", "1"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            wait_until("the first round", lambda: seen(tables) == 4, SECONDS_MAX, 0.5)
            commit(admin, 0)
            wait_until("a round with what came later", lambda: seen(tables) == 8, SECONDS_MAX, 0.5)
            process.send_signal(signal.SIGTERM)
            errors = process.communicate(timeout=SECONDS_MAX)[1]
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, errors[-3000:]
        assert "stopping after this round" in errors
        samples = store.read("log_end_offsets", tables)
        assert samples.num_rows >= 4, "a sample a round"
        source = LiveInput.whole(cluster.bootstrap, "c")
        build(None, source, tmp_path / "batch", FoldSettings(cluster="c"), log_ends=samples)
    assert same_rows(tables, tmp_path / "batch").holds
    assert store.read("records", tables).equals(store.read("records", tmp_path / "batch"))
    assert all(one.holds for one in check(tables))
    last = {(row["group_id"], row["partition"]): row for row in store.read("lag", tables).to_pylist()}
    assert [(row["lag"], row["quality"]) for row in last.values()] == [(0, "exact")] * 4
