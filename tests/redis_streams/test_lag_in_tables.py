"""The pipeline beside a real replica with topics in a real Redis: where offsets have gaps its tables say 0, or that the
number of records is not known and for how long the group has been behind; never a number that means nothing."""

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from muster_pipeline import store
from muster_pipeline.job.build import build
from muster_pipeline.job.live import LiveInput
from muster_pipeline.sources.cluster import Cluster
from muster_pipeline.sources.log_end_offsets import sample
from muster_pipeline.transforms.settings import FoldSettings

from tests.cluster import MusterCluster
from tests.redis_streams.redis_server import Connection
from tests.redis_streams.test_group_import import stream_of
from tests.redis_streams.test_topics_in_redis import Reader, make_topic, send

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
GROUP = "told"


def tables(at: MusterCluster, root: Path) -> dict[str, tuple[Any, Any]]:
    """Of each topic of the group: its last row of `lag`, and its row of `partition_status`; from the log as it is."""
    with Cluster(at.bootstrap) as cluster:
        log_ends = sample(cluster, "c", None, lambda: time.time_ns() // 1_000_000)
    build(None, LiveInput.whole(at.bootstrap, "c"), root, FoldSettings(cluster="c"), log_ends=log_ends)
    lags = {row["topic"]: row for row in store.read("lag", root).to_pylist() if row["group_id"] == GROUP}
    judged = store.read("partition_status", root).to_pylist()
    return {row["topic"]: (lags[row["topic"]], row) for row in judged if row["group_id"] == GROUP}


def test_lag_of_topics_in_redis_and_of_others(at: MusterCluster, cli: Connection, tmp_path: Path) -> None:
    make_topic(at, "gapped", 1)
    admin = AdminClient({"bootstrap.servers": at.bootstrap})
    topic: Any = NewTopic("plain", 1, 1, config={"topic.store": "embedded"})
    admin.create_topics([topic])["plain"].result(60)
    for name in ("gapped", "plain"):
        send(at, name, [b"%d" % number for number in range(20)])
        reader = Reader(at, name, GROUP)
        reader.read(20)
        reader.consumer.close()
    found = tables(at, tmp_path / "read")
    for lag, status in found.values():
        assert (lag["lag"], lag["quality"], lag["detail"], lag["time_lag_ms"]) == (0, "exact", "sampled", 0)
        assert (status["lag"], status["status"]) == (0, "ABANDONED")

    for _ in range(7):
        cli.ask("XADD", stream_of("gapped", 0), "*", "v", "1")
    send(at, "plain", [b"more"] * 7)
    found = tables(at, tmp_path / "behind")
    lag, status = found["plain"]
    assert (lag["lag"], lag["quality"], status["lag"]) == (7, "exact", 7)
    lag, status = found["gapped"]
    assert (lag["lag"], lag["quality"], lag["detail"], status["lag"]) == (None, "unknown", "gaps", None)
    assert lag["log_end_offset"] - lag["committed_offset"] > 7
    samples = store.read("log_end_offsets", tmp_path / "behind").to_pylist()
    assert {row["topic"]: row["has_gaps"] for row in samples} == {"gapped": True, "plain": False}
