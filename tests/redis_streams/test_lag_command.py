"""`muster group lag --redis` on a real replica and a real Redis: as many records as there are, though offsets have
gaps; a Redis that is away, foreign or forgetful is told, and never 0."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.cli.exits import Exit
from muster_coordinator.redis_streams import limits

from tests.cli.ran import Ran
from tests.cluster import MusterCluster, wait_until
from tests.redis_streams.cluster_servers import Cluster
from tests.redis_streams.redis_server import Connection, RedisServer
from tests.redis_streams.test_group_import import muster, stream_of
from tests.redis_streams.test_topics_in_redis import Reader, make_topic, send

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
UNKNOWN = (None, "unknown")


def records(ran: Ran) -> dict[tuple[str, int], tuple[int | None, str]]:
    rows: list[dict[str, Any]] = json.loads(ran.out)
    return {(row["topic"], row["partition"]): (row["records"], row["records_quality"]) for row in rows}


def behind_of(at: MusterCluster, group: str) -> dict[str, tuple[int | None, str] | None] | None:
    """What `/v1/groups/{group}` says of the records behind each topic's commit; None: no replica's yet."""
    for replica in range(at.replicas):
        status, document = at.admin(replica, f"/v1/groups/{group}")
        if status == 200:
            told = {one["topic"]: one["behind"] for one in document["offsets"]}
            return {t: None if behind is None else (behind["records"], behind["quality"]) for t, behind in told.items()}
    return None


def test_it_counts_what_is_behind_the_commit(at: MusterCluster, cli: Connection, url: str) -> None:
    make_topic(at, "counted", 2)
    send(at, "counted", [b"%d" % number for number in range(40)], partitions=2)
    there = [cli.ask("XLEN", stream_of("counted", partition)) for partition in (0, 1)]
    assert sum(there) == 40
    reader = Reader(at, "counted", "g")
    reader.read(40)
    reader.consumer.close()
    ran = muster("lag", "g", "--redis", url, "-o", "json")
    assert ran.code == Exit.OK, ran.err
    assert records(ran) == {("counted", 0): (0, "exact"), ("counted", 1): (0, "exact")}
    for _ in range(7):
        cli.ask("XADD", stream_of("counted", 1), "*", "v", "1")
    ran = muster("lag", "g", "--redis", url, "-o", "json")
    assert records(ran) == {("counted", 0): (0, "exact"), ("counted", 1): (7, "exact")}
    assert json.loads(ran.out)[1]["lag"] > 7, "offsets have gaps"
    table = muster("lag", "g", "--redis", url).out.splitlines()
    assert table[0].split()[4:] == ["LAG", "RECORDS", "QUALITY", "OWNER"]
    assert table[2].split()[5:] == ["7", "exact", "-"]
    for _ in range(limits.LAG_ENTRIES_COUNTED_MAX):
        cli.ask("XADD", stream_of("counted", 1), "*", "v", "1")
    number, word = records(muster("lag", "g", "--redis", url, "-o", "json"))["counted", 1]
    assert word == "estimated"
    assert number is not None
    assert limits.LAG_ENTRIES_COUNTED_MAX < number < limits.LAG_ENTRIES_COUNTED_MAX + 7 + there[1]


def test_a_redis_cluster_is_asked_at_the_node_of_each_stream(tmp_path: Path) -> None:
    """By the properties of a replica, as `muster group import` does, which reads positions there."""
    with Cluster(tmp_path / "redis") as nodes:
        settings = {"topics.mode": "redis", "group.initial.rebalance.delay.ms": "0", **nodes.keys}
        with MusterCluster(tmp_path / "muster" / "disk", replicas=1, partitions=2, settings=settings) as cluster:
            make_topic(cluster, "spread", 6)
            streams = [stream_of("spread", partition) for partition in range(6)]
            assert len({nodes.owner(stream).port for stream in streams}) > 1
            send(cluster, "spread", [b"%d" % number for number in range(60)], partitions=6)
            reader = Reader(cluster, "spread", "g")
            reader.read(60)
            reader.consumer.close()
            for count, stream in enumerate(streams):
                connection = nodes.owner(stream).connect()
                for _ in range(count):
                    connection.ask("XADD", stream, "*", "v", "1")
                connection.ask("XGROUP", "CREATE", stream, "theirs", "0")
                connection.ask("XREADGROUP", "GROUP", "theirs", "c", "COUNT", 3, "STREAMS", stream, ">")
            config = tmp_path / "redis.properties"
            config.write_text("".join(f"{key}={value}\n" for key, value in nodes.keys.items()))
            bootstrap = ("--bootstrap-server", cluster.bootstrap)
            ran = muster("lag", "g", *bootstrap, "--redis", str(config), "-o", "json")
            assert ran.code == Exit.OK, ran.err
            assert records(ran) == {("spread", partition): (partition, "exact") for partition in range(6)}
            ran = muster("import", "theirs", *bootstrap, "--topic", "spread", "--from-redis", str(config), "-o", "json")
            assert ran.code == Exit.OK, ran.err
            told = [(row["stream"], row["pending_entries"]) for row in json.loads(ran.out)]
            assert told == [(stream, 3) for stream in streams]


@pytest.mark.parametrize("bits", [1, 20])
def test_streams_of_other_names_and_bits(at: MusterCluster, cli: Connection, url: str, bits: int) -> None:
    """Entries of others, the last sequence of a millisecond among them; one was deleted."""
    name, ms = f"theirs{bits}", 1_700_000_000_000
    stream = f"korvet:{name}:0"
    for entry in (f"{ms}-0", f"{ms}-{2**bits - 1}", f"{ms + 1}-0", f"{ms + 2}-0", f"{ms + 3}-1"):
        cli.ask("XADD", stream, entry, "data", "1")
    configs = {"redis.stream": "korvet:{topic}:{partition}", "redis.sequence.bits": str(bits)}
    topic: Any = NewTopic(name, 1, 1, config=configs)
    admin = AdminClient({"bootstrap.servers": at.bootstrap})
    admin.create_topics([topic])[name].result(60)
    reader = Reader(at, name, name)
    reader.read(5)
    reader.consumer.close()
    back = str(2 ** (bits + 1))
    ran = muster("reset-offsets", name, "--topic", name, "--shift-by", f"-{back}", "--execute")
    assert ran.code == Exit.OK, ran.err
    ran = muster("lag", name, "--redis", url, "-o", "json")
    (row,) = json.loads(ran.out)
    assert row["current_offset"] == (ms + 1) * 2**bits + 2
    assert records(ran) == {(name, 0): (2, "exact")}
    cli.ask("XDEL", stream, f"{ms + 2}-0")
    assert records(muster("lag", name, "--redis", url, "-o", "json")) == {(name, 0): (1, "exact")}


def test_a_replicas_file_names_the_redis_and_an_embedded_topic_needs_none(
    at: MusterCluster, url: str, tmp_path: Path
) -> None:
    make_topic(at, "named", 1)
    send(at, "named", [b"1", b"2"])
    admin = AdminClient({"bootstrap.servers": at.bootstrap})
    admin.create_topics([NewTopic("inside", 1, 1, config={"topic.store": "embedded"})])["inside"].result(60)
    send(at, "inside", [b"1", b"2", b"3"])
    for topic in ("named", "inside"):
        reader = Reader(at, topic, "both")
        reader.read(1)
        reader.consumer.close()
    wait_until(
        "a coordinator has counted", lambda: behind_of(at, "both") == {"named": (1, "exact"), "inside": None}, 60
    )
    file = tmp_path / "muster.properties"
    file.write_text(f"redis.url={url}\nmuster.unrelated=1\n")
    ran = muster("lag", "both", "--redis", str(file), "-o", "json")
    assert (ran.code, records(ran)) == (Exit.OK, {("inside", 0): (2, "exact"), ("named", 0): (1, "exact")}), ran.err
    ran = muster("lag", "both", "-o", "json")
    assert (ran.code, records(ran)) == (Exit.OK, {("inside", 0): (2, "exact"), ("named", 0): UNKNOWN})


def test_a_redis_that_is_another_one_or_away_is_unknown_and_told(
    at: MusterCluster, url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    make_topic(at, "elsewhere", 1)
    send(at, "elsewhere", [b"1"])
    reader = Reader(at, "elsewhere", "lost")
    reader.read(1)
    reader.consumer.close()
    folder = tmp_path_factory.mktemp("other")
    with RedisServer(folder, keeps=False) as other:
        elsewhere = f"redis://127.0.0.1:{other.port}/0"
        ran = muster("lag", "lost", "--redis", elsewhere, "-o", "json")
        assert (ran.code, records(ran)) == (Exit.INCOMPLETE, {("elsewhere", 0): UNKNOWN})
        assert "its stream is not this cluster's" in ran.err
        other.kill()
        ran = muster("lag", "lost", "--redis", elsewhere, "-o", "json")
        assert (ran.code, records(ran)) == (Exit.INCOMPLETE, {("elsewhere", 0): UNKNOWN})
        assert "records of 1 partitions are unknown: Redis: " in ran.err
    shutil.rmtree(folder)
    assert records(muster("lag", "lost", "--redis", url, "-o", "json")) == {("elsewhere", 0): (0, "exact")}


def test_metrics_while_redis_is_killed_and_comes_back(at: MusterCluster, redis: RedisServer) -> None:
    make_topic(at, "metered", 1)
    send(at, "metered", [b"1", b"2", b"3"])
    reader = Reader(at, "metered", "metered")
    reader.read(1)
    reader.consumer.close()

    def page() -> list[str]:
        return [line for line in at.metrics(0).splitlines() if 'group="metered"' in line and "_lag" in line]

    told = [
        'muster_consumer_group_lag{group="metered"} 2.0',
        'muster_consumer_group_lag_quality{group="metered",quality="exact"} 1.0',
    ]
    wait_until("the lag is known", lambda: page() == told, 60)
    redis.kill()
    nothing = ['muster_consumer_group_lag_quality{group="metered",quality="unknown"} 1.0']
    wait_until("it is unknown", lambda: page() == nothing, 60)
    redis.start()
    wait_until("it is known again", lambda: page() == told, 90)
