"""When groups are shown in Redis: rounds and walks of the mirror on virtual time, over shards that are values and a
server that answers as it is told, in the same turn or later."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from muster_coordinator.controller.image import ClusterImage, Partition, Topic
from muster_coordinator.ids import GroupNo
from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.server import MIRROR, MIRRORED, Answer, Failure, NoServer, Script, Trouble
from muster_coordinator.replica.partitions.redis_mirror import NOT_SHOWN, GroupMirror

from tests.sim.loop import SimLoop, World

SHARD = GroupNo(3)
ID = b"\7" * 16
OK = (b"OK", b"")


def topic(
    name: str = "t", partitions: int = 1, first: int = 50, store: str = "redis", topic_id: bytes = ID, **configs: str
) -> Topic:
    made = tuple(Partition(group=GroupNo(first + index), members=()) for index in range(partitions))
    given = sorted({"topic.store": store, **{key.replace("_", "."): value for key, value in configs.items()}}.items())
    return Topic(name=name, topic_id=topic_id, partitions=made, configs=tuple(given), internal=False)


class Offsets:
    """What is applied of a shard."""

    def __init__(self) -> None:
        self.applied: dict[tuple[str, str, int], int] = {}

    def committed_offset(self, group: str, topic: str, partition: int, topic_id: bytes) -> int | None:
        return self.applied.get((group, topic, partition)) if topic_id == ID else None

    def groups_with_offsets(self) -> list[str]:
        return sorted({group for group, _, _ in self.applied})

    def committed(self, group: str) -> Iterator[tuple[str, int, int]]:
        return iter([(t, p, offset) for (g, t, p), offset in sorted(self.applied.items()) if g == group])


class Mirroring:
    """A mirror, one shard that leads, and a server."""

    def __init__(self, *topics: Topic, later_ms: int = 0) -> None:
        self.world = World("mirror")
        self.loop = SimLoop(self.world)
        self.topics: dict[str, Topic] | None = {one.name: one for one in topics}
        self.notices: list[dict[str, Any]] = []
        self.asked: list[tuple[int, str, bytes]] = []
        """(ms, group and partition, id of the last delivered entry)"""
        self.listed = 0
        self.answer: Callable[[str], Answer] = lambda _: OK
        self.notes: list[bytes] = []
        self.later_ms = later_ms
        server: Any = self
        self.mirror = GroupMirror(self.loop, server, "c", "muster", self.image, self.notice)
        self.offsets = Offsets()
        group = SimpleNamespace(number=SHARD, serves=True, core=SimpleNamespace(term=4))
        self.shard: Any = SimpleNamespace(group=group, shard=self.offsets)

    def image(self) -> ClusterImage | None:
        found: Any = None if self.topics is None else SimpleNamespace(topics=self.topics)
        return found

    def notice(self, what: str, details: Any, error: object) -> None:
        assert what == NOT_SHOWN
        self.notices.append(dict(details))

    def run(
        self, script: Script, keys: tuple[str, str], arguments: Sequence[bytes], done: Callable[[Answer], None]
    ) -> None:
        if script is MIRRORED:
            self.listed += 1
            answer: Answer = (b"OK", b"0", self.notes)
        else:
            assert script is MIRROR
            shown = f"{arguments[5].decode()}@{keys[0]}"
            self.asked.append((self.loop.monotonic_ms(), shown, arguments[6]))
            answer = self.answer(shown)
        if self.later_ms:
            self.loop.call_at(self.loop.monotonic_ms() + self.later_ms, lambda: done(answer))
        else:
            done(answer)

    def commit(self, offset: int | None, group: str = "g", name: str = "t", partition: int = 0) -> None:
        key = (group, name, partition)
        if offset is None:
            del self.offsets.applied[key]
        else:
            self.offsets.applied[key] = offset
        self.mirror.changed(self.shard, [key])

    def lead(self) -> None:
        self.mirror.began(self.shard)
        self.world.run_for(2 * limits.MIRROR_DELAY_MS)
        self.asked.clear()

    def sets(self) -> list[tuple[str, bytes]]:
        return [(shown, at) for _, shown, at in self.asked]


@pytest.fixture(params=[0, 3])
def mirroring(request: pytest.FixtureRequest) -> Mirroring:
    """Answered in the turn of the call, as of a server that has too many calls, or later."""
    return Mirroring(topic(), later_ms=request.param)


def test_a_commit_is_noted_once_and_shown_as_it_is_when_its_round_comes(mirroring: Mirroring) -> None:
    mirroring.lead()
    mirroring.commit(1025)
    mirroring.commit(1026)
    assert mirroring.asked == []
    mirroring.world.run_for(limits.MIRROR_DELAY_MS - 1)
    assert mirroring.asked == []
    mirroring.commit(1027)
    mirroring.world.run_for(10)
    assert mirroring.sets() == [("g@muster:{t:0}", b"1-2")]
    mirroring.commit(None)
    mirroring.world.run_for(limits.MIRROR_DELAY_MS + 10)
    assert mirroring.sets()[1:] == [("g@muster:{t:0}", b"")]


def test_what_comes_while_a_round_goes_on_is_the_next_rounds(mirroring: Mirroring) -> None:
    mirroring.lead()
    for number in range(20):
        mirroring.commit(1025, f"g{number:02}")
    mirroring.world.run_for(limits.MIRROR_DELAY_MS + 1)
    assert len(mirroring.asked) == limits.MIRROR_AT_ONCE
    mirroring.commit(1030, "g00")
    mirroring.commit(1030, "g19")
    mirroring.world.run_for(100)
    assert [at for shown, at in mirroring.sets() if shown.startswith("g19")] == [b"1-5"], "it had not been sent yet"
    mirroring.world.run_for(2 * limits.MIRROR_DELAY_MS)
    assert [at for shown, at in mirroring.sets() if shown.startswith("g00")] == [b"1-0", b"1-5"]
    assert len(mirroring.asked) == 22


@pytest.mark.parametrize("trouble", [Trouble.AWAY, Trouble.UNKNOWN])
def test_redis_away_is_asked_a_few_times_and_later_each_time(mirroring: Mirroring, trouble: Trouble) -> None:
    mirroring.lead()
    mirroring.answer = lambda _: Failure(trouble, "away")
    for number in range(100):
        mirroring.commit(1025, f"g{number}")
    mirroring.world.run_for(300_000)
    times = sorted({at for at, _, _ in mirroring.asked})
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[0] >= limits.MIRROR_RETRY_MS
    assert limits.MIRROR_RETRY_MS_MAX <= pauses[-1] <= limits.MIRROR_RETRY_MS_MAX + 10
    assert len(mirroring.asked) <= limits.MIRROR_AT_ONCE * len(times) <= 100
    mirroring.answer = lambda _: OK
    mirroring.asked.clear()
    mirroring.world.run_for(limits.MIRROR_RETRY_MS_MAX + 1_000)
    assert len({shown for _, shown, _ in mirroring.asked}) == len(mirroring.asked) == 100
    assert mirroring.notices == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((b"FOREIGN", b""), "not made by this cluster"),
        ((b"USED", b""), "consumers of Redis"),
        ((b"TYPE", b"string"), "no stream"),
        (Failure(Trouble.REFUSED, "NOPERM"), "NOPERM"),
        ((b"STALE", b""), ""),
        ((b"UNCLAIMED", b""), ""),
        ((b"NONE", b""), ""),
    ],
)
def test_what_redis_refuses_is_told_and_not_tried_again(mirroring: Mirroring, answer: Answer, why: str) -> None:
    mirroring.lead()
    mirroring.answer = lambda _: answer
    mirroring.commit(1025)
    mirroring.world.run_for(10_000)
    assert len(mirroring.asked) == 1
    assert [why in one["why"] for one in mirroring.notices] == ([True] if why else [])


def test_a_walk_shows_all_there_is_and_takes_away_what_has_no_offset(mirroring: Mirroring) -> None:
    mirroring.offsets.applied = {("g", "t", 0): 1025, ("h", "t", 0): 2049, ("g", "elsewhere", 0): 5}
    mirroring.topics = {"t": topic(), "elsewhere": topic("elsewhere", store="embedded")}
    mirroring.notes = [b"g:h", b"3 1 1", b"g:gone", b"3 2 9", b"g:others", b"4 1 1"]
    mirroring.mirror.began(mirroring.shard)
    mirroring.world.run_for(2_000)
    assert sorted(mirroring.sets()) == [
        ("g@muster:{t:0}", b"1-0"), ("gone@muster:{t:0}", b""), ("h@muster:{t:0}", b"2-0")
    ]  # fmt: skip
    mirroring.asked.clear()
    mirroring.world.run_for(limits.MIRROR_WALK_MS)
    assert len(mirroring.asked) == 3, "now and then again"
    mirroring.mirror.ended(mirroring.shard)
    mirroring.asked.clear()
    mirroring.world.run_for(2 * limits.MIRROR_WALK_MS)
    assert mirroring.asked == [], "who does not lead shows nothing"


def test_a_deposed_coordinator_shows_nothing_of_what_it_had_noted(mirroring: Mirroring) -> None:
    mirroring.lead()
    mirroring.commit(1025)
    mirroring.shard.group.serves = False
    mirroring.world.run_for(10_000)
    assert mirroring.asked == []


def test_a_queue_that_is_full_is_made_good_by_a_walk(mirroring: Mirroring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MIRROR_QUEUED_MAX", 10)
    monkeypatch.setattr(limits, "MIRROR_WALK_ROWS", 4)
    mirroring.lead()
    for number in range(45):
        mirroring.commit(1025, f"g{number}")
    mirroring.world.run_for(limits.MIRROR_DELAY_MS + 100)
    assert len(mirroring.asked) == 10
    mirroring.world.run_for(30_000)
    assert {shown for shown, _ in mirroring.sets()} == {f"g{number}@muster:{{t:0}}" for number in range(45)}


def test_an_image_that_is_behind_is_waited_for(mirroring: Mirroring) -> None:
    """A replica may lead before it knows any topic, or the newest ones, or that one has more partitions."""
    mirroring.topics = None
    mirroring.offsets.applied = {("g", "t", 0): 1025, ("g", "t", 1): 1025, ("g", "new", 0): 1025}
    mirroring.mirror.began(mirroring.shard)
    mirroring.world.run_for(10_000)
    assert mirroring.asked == []
    mirroring.topics = {"t": topic()}
    mirroring.world.run_for(2_000)
    assert mirroring.sets() == [("g@muster:{t:0}", b"1-0")]
    mirroring.asked.clear()
    for changed, found in ((topic("other"), 0), (topic(partitions=2), 2), (topic("new"), 3)):
        mirroring.topics[changed.name] = changed
        mirroring.mirror.topics_changed([changed])
        mirroring.world.run_for(2_000)
        assert len({shown for shown, _ in mirroring.sets()}) == found


def test_a_topic_that_was_made_again_is_shown_when_it_is_known(mirroring: Mirroring) -> None:
    mirroring.lead()
    mirroring.answer = lambda _: (b"FENCED", b"9")
    mirroring.commit(1025)
    mirroring.world.run_for(1_000)
    mirroring.answer = lambda _: OK
    mirroring.topics = {"t": topic(first=90)}
    mirroring.mirror.topics_changed([mirroring.topics["t"]])
    mirroring.world.run_for(2_000)
    assert len(mirroring.asked) == 2


@pytest.mark.parametrize(
    ("configs", "shown"),
    [
        ({}, ("g@muster:{t:0}", b"2-0")),
        ({"redis_stream": "korvet:{topic}:{partition}"}, ("g@korvet:t:0", b"2-0")),
        ({"redis_stream": "a:{{{topic}}}", "redis_sequence_bits": "1"}, ("g@a:{t}", b"1024-0")),
        ({"redis_sequence_bits": "20"}, ("g@muster:{t:0}", b"0-2048")),
    ],
)
def test_a_group_is_shown_where_the_topics_configs_say(
    mirroring: Mirroring, configs: dict[str, str], shown: tuple[str, bytes]
) -> None:
    mirroring.topics = {"t": topic(**configs)}
    mirroring.lead()
    mirroring.answer = lambda _: (b"FOREIGN", b"")
    mirroring.commit(2049)
    mirroring.world.run_for(1_000)
    assert mirroring.sets() == [shown]
    assert [f"g@{one['stream']}" for one in mirroring.notices] == [shown[0]]


def test_an_image_with_an_earlier_topic_of_other_names_is_waited_for(mirroring: Mirroring) -> None:
    """The offset is the later topic's, and this replica does not know that one yet: the earlier one has none."""
    mirroring.topics = {"t": topic(topic_id=b"\6" * 16, redis_stream="old:{topic}")}
    mirroring.lead()
    mirroring.answer = lambda shown: (b"NONE", b"") if "old" in shown else OK
    mirroring.commit(1025)
    mirroring.world.run_for(10_000)
    assert mirroring.sets() == [("g@old:t", b"")]
    mirroring.topics = {"t": topic(first=90, redis_stream="new:{topic}")}
    mirroring.mirror.topics_changed([mirroring.topics["t"]])
    mirroring.world.run_for(2_000)
    assert mirroring.sets()[1:] == [("g@new:t", b"1-0")]
    assert mirroring.notices == []


def test_without_a_server_a_replica_only_tries() -> None:
    mirroring = Mirroring(topic())
    mirroring.mirror = GroupMirror(mirroring.loop, NoServer(), "c", "muster", mirroring.image, mirroring.notice)
    mirroring.lead()
    mirroring.commit(1025)
    mirroring.world.run_for(300_000)
    assert mirroring.notices == []
