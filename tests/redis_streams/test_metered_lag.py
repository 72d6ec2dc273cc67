"""The lag of groups in topics in Redis, as `/metrics` has it: over the whole of `api` on virtual time and a real Redis,
with Redis away and back, beside topics that are elsewhere."""

from collections.abc import Iterator

import pytest
from muster_coordinator.admin.group_meter import SWEEP_MS, GroupMeter, GroupSample
from muster_coordinator.admin.node_groups import NodeGroups
from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.keys import keys_of
from muster_coordinator.redis_streams.lag import Quality
from muster_coordinator.redis_streams.server import Trouble

from tests.api.store_contract import one
from tests.redis_streams.redis_server import RedisServer
from tests.redis_streams.test_group_mirror import Mirrored, away

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


class Metered(Mirrored):
    """A replica whose groups are metered."""

    def __init__(self, server: RedisServer) -> None:
        super().__init__(server, mirror=False)
        node = self.cluster.nodes[0]
        self.meter = GroupMeter(node.loop, NodeGroups(node))
        self.meter.start()

    def sample(self, group: str = "g") -> GroupSample:
        """As of a sweep from now on, and of what Redis says then."""
        self.world.run_for(3 * SWEEP_MS)
        return next(found for found in self.meter.samples() if found.group == group)

    def lag(self, group: str = "g") -> tuple[int | None, Quality]:
        found = self.sample(group)
        return found.lag, found.word


@pytest.fixture
def metered(server: RedisServer) -> Metered:
    return Metered(server)


def test_it_is_the_number_of_records_over_all_partitions(metered: Metered) -> None:
    name = metered.topic(2)
    first = [metered.stored(name, one(b"%d" % n)) for n in range(5)]
    other = [metered.stored(name, one(b"%d" % n), 1) for n in range(4)]
    assert metered.commit_of("g", name, first[1] + 1) == 0
    assert metered.lag() == (3, Quality.EXACT), "a partition without a commit does not count"
    assert metered.commit_of("g", name, other[0], 1) == 0
    assert metered.lag() == (3 + 4, Quality.EXACT)
    assert metered.commit_of("g", name, first[4] + 1) == 0
    assert metered.commit_of("g", name, other[3] + 1, 1) == 0
    assert metered.lag() == (0, Quality.EXACT)


def test_beside_a_topic_that_is_elsewhere(metered: Metered) -> None:
    assert metered.create("inside", topic_store="embedded") == 0
    metered.when_led("inside", 1)
    for _ in range(4):
        metered.stored("inside", one(b"v"))
    assert metered.commit_of("g", "inside", 1) == 0
    assert metered.lag() == (3, Quality.EXACT)
    name = metered.topic()
    assert metered.commit_of("g", name, metered.stored(name, one(b"v"))) == 0
    assert metered.lag() == (3 + 1, Quality.EXACT)


def test_far_behind_it_is_an_estimate(metered: Metered) -> None:
    name = metered.topic()
    stream, _ = keys_of("muster", name, 0)
    cli = metered.redis.redis.ask
    for _ in range(limits.LAG_ENTRIES_COUNTED_MAX + 100):
        cli("XADD", stream, "*", "v", "1")
    (second, _), *_ = cli("XRANGE", stream, "-", "+", "COUNT", 2)[1:]
    milliseconds, sequence = map(int, second.split(b"-"))
    assert metered.commit_of("g", name, milliseconds * 1024 + sequence) == 0
    lag, word = metered.lag()
    assert word is Quality.ESTIMATED
    assert lag is not None
    assert limits.LAG_ENTRIES_COUNTED_MAX < lag <= limits.LAG_ENTRIES_COUNTED_MAX + 99


def test_redis_away_and_back(metered: Metered) -> None:
    """Unknown, never 0, and never what it was before. (A server that is killed is in `test_lag_command`.)"""
    name = metered.topic()
    offset = metered.stored(name, one(b"v"))
    assert metered.commit_of("g", name, offset) == 0
    assert metered.lag() == (1, Quality.EXACT)
    for trouble in (Trouble.AWAY, Trouble.UNKNOWN):
        metered.redis.fate = lambda script, told=trouble: told if script.name == "behind" else None
        assert metered.lag() == (None, Quality.UNKNOWN)
        metered.stored(name, one(b"v"))
        metered.redis.fate = lambda _: None
        metered.world.run_for(limits.LAG_RETRY_MS_MAX)
        assert metered.sample().word is Quality.EXACT
    assert metered.lag() == (3, Quality.EXACT)
    assert metered.notices == []


def test_a_stream_that_somebody_removed_is_unknown(metered: Metered) -> None:
    name = metered.topic(2)
    for partition in (0, 1):
        assert metered.commit_of("g", name, metered.stored(name, one(b"v"), partition) + 1, partition) == 0
    assert metered.lag() == (0, Quality.EXACT)
    metered.redis.redis.ask("DEL", *keys_of("muster", name, 0))
    assert metered.lag() == (None, Quality.UNKNOWN), "one partition is enough"


def test_redis_away_costs_no_commit_and_no_fetch(metered: Metered) -> None:
    name = metered.topic()
    offset = metered.stored(name, one(b"v"))
    metered.redis.fate = away("behind")
    for number in range(3):
        assert metered.commit_of("g", name, offset + number) == 0
        assert len(metered.read(name, offset)) == 1
        metered.world.run_for(SWEEP_MS)
    assert metered.lag()[1] is Quality.UNKNOWN
