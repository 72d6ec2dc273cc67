"""The ten steps of document 004 by clients that know nothing of Redis: librdkafka, kafka-python, aiokafka and Java join
a group, read from the beginning, from a commit and from the end, go back, commit and leave, through kills of the
replica and of Redis.

What a client asked is taken from the replica's own counts of requests; `test_topics_in_redis` has the frames of each
step. A broker forgets these counts when it is killed, so they are read before.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.redis_streams.redis_server import RedisServer
from tests.redis_streams.test_topics_in_redis import PATIENCE_S, make_topic, send

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.timeout(400)]

ASKED = {
    "API_VERSIONS", "METADATA", "FIND_COORDINATOR", "JOIN_GROUP", "SYNC_GROUP", "OFFSET_FETCH", "LIST_OFFSETS",
    "FETCH", "OFFSET_COMMIT", "HEARTBEAT", "LEAVE_GROUP",
}  # fmt: skip
"""What the ten steps ask for."""


@pytest.fixture
def member(cluster: MusterCluster) -> Iterator[Callable[..., Member]]:
    made: list[Member] = []

    def start(client: str, **settings: Any) -> Member:
        settings = {"session_ms": 45_000, "heartbeat_ms": 500, "poll_ms": 120_000, **settings}
        made.append(Member(client, bootstrap=cluster.bootstrap, **settings))
        return made[-1]

    yield start
    for one in made:
        one.dispose()


def requests(cluster: MusterCluster) -> Counter[str]:
    """Those that are answered."""
    found = re.findall(r'^muster_request_seconds_count\{api="(\w+)"\} ([0-9.e+]+)$', cluster.metrics(0), re.MULTILINE)
    return Counter({api: round(float(count)) for api, count in found})


def offsets_in(redis: RedisServer, topic: str) -> list[int]:
    """Of the entries of the only stream, by the rule of document 004, as a program that knows only Redis has them."""
    entries = redis.connect().ask("XRANGE", f"muster:{{{topic}:0}}", "-", "+")
    parts = [entry.decode().split("-") for entry, _ in entries]
    return [(int(milliseconds) << 10) | int(sequence) for milliseconds, sequence in parts]


def read_by(one: Member, count: int) -> list[tuple[int, str | None]]:
    one.wait(f"{count} records", lambda m: len(m.records) >= count, PATIENCE_S)
    return [(offset, value) for _, _, offset, _, value in one.records]


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python", "aiokafka", "java"])
def test_the_ten_steps_by_a_client(
    cluster: MusterCluster, redis: RedisServer, member: Callable[..., Member], client: str
) -> None:
    topic, group = f"steps-{client}", f"group-{client}"
    make_topic(cluster, topic, 1)
    send(cluster, topic, [b"1", b"2", b"3"])
    offsets = offsets_in(redis, topic)
    before = requests(cluster)

    first = member(client, group=group, topics=[topic], reset="earliest")
    assert read_by(first, 3) == list(zip(offsets, "123", strict=True)), "from the earliest, at the entries' offsets"
    first.command("seek", t=topic, p=0, o=offsets[1])
    assert read_by(first, 5)[3:] == [(offsets[1], "2"), (offsets[2], "3")], "a rewind"
    first.ask("commit_offsets", "committed", offsets=[[topic, 0, offsets[1] + 1, "here"]])
    assert first.committed((topic, 0)) == {(topic, 0): offsets[1] + 1}
    beats = requests(cluster)["HEARTBEAT"]
    wait_until("a heartbeat", lambda: requests(cluster)["HEARTBEAT"] > beats, PATIENCE_S)
    first.leave(PATIENCE_S)

    second = member(client, group=group, topics=[topic], reset="earliest")
    assert read_by(second, 1) == [(offsets[2], "3")], "from what is committed"
    listed = requests(cluster)["LIST_OFFSETS"]
    newest = member(client, group=f"{group}-new", topics=[topic], reset="latest")
    newest.wait_owns(1, PATIENCE_S)
    # Without a commit "latest" is where the log ends when the client asks.
    wait_until("its position is known", lambda: requests(cluster)["LIST_OFFSETS"] > listed, PATIENCE_S)
    second.ask("produce", "produced", PATIENCE_S, t=topic, p=0, v="4")
    assert read_by(second, 2)[1][1] == "4", "what the client itself has produced"
    assert [value for _, value in read_by(newest, 1)] == ["4"], "from the latest"
    asked = requests(cluster) - before
    assert asked.keys() >= ASKED, ASKED - asked.keys()

    # A client that joins anew after the kills reads from its commit; else it would read "3" and "4" again.
    for one in (second, newest):
        wait_until("a commit", lambda one=one: one.commit()["e"] == "committed", PATIENCE_S)
    cluster.kill(0)
    redis.kill()
    redis.start()
    cluster.start_replica(0)
    second.ask("produce", "produced", PATIENCE_S, t=topic, p=0, v="5")
    assert read_by(second, 3)[2][1] == "5", "through kills of both"
    wait_until("a commit", lambda: second.commit()["e"] == "committed", PATIENCE_S)
    offsets = offsets_in(redis, topic)
    assert second.committed((topic, 0)) == {(topic, 0): offsets[-1] + 1}, "the end"
    assert [value for _, value in read_by(newest, 2)] == ["4", "5"]
    assert [offset for offset, _ in read_by(second, 3)] == offsets[2:], "each once"
