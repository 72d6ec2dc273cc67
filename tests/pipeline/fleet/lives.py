"""Ten thousand groups and what happens to them, as the batches of a few log partitions. One seed, one log.

A group is classic (Kafka's way, or Muster's with its own records), of KIP-848, of Streams, a share group, simple
(commits only), transactional, or of a kind that is not known yet. Lives are interleaved by time; now and then a
coordinator's clock is a little behind the one before, and seldom a day ahead or behind.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.pipeline import logs
from tests.pipeline.fleet import group_bytes as bytes_of
from tests.pipeline.logs import Batch, Record
from tests.pipeline.store.logfolder import Assigned, generation

PARTITIONS = 4
TOPICS = [f"topic-{number:02}" for number in range(30)]
IDS = {name: random.Random(name).randbytes(16) for name in TOPICS}
START_MS = logs.NOW_MS
MINUTE_MS = 60_000
DAY_MS = 86_400_000
Event = tuple[int, Batch]


@dataclass(slots=True)
class Life:
    """Writes one group's events."""

    name: str
    random: random.Random
    now_ms: int
    topics: tuple[str, str]
    offset: int = 0

    def batch(self, records: Sequence[Record], **shape: object) -> Event:
        """A batch some time later, in any codec."""
        self.now_ms += self.random.randint(1, 4 * MINUTE_MS)
        chance = self.random.random()
        stamp = self.now_ms - (20_000 if chance < 0.02 else 0)
        stamp += DAY_MS if chance > 1 - 0.0004 else -DAY_MS if chance > 1 - 0.0006 else 0
        codec = self.random.choice((0, 0, 0, 0, 1, 2, 3, 4))
        return self.now_ms, Batch(records=records, timestamp_ms=stamp, codec=codec, **shape)  # type: ignore[arg-type]

    def commits(self, **more: object) -> list[Record]:
        """A commit of two partitions of each topic: on, still, or back."""
        self.offset = max(0, self.offset + self.random.choice((0, 0, 5, 17, 250, -3)))
        version = self.random.choice((1, 3, 3, 4))
        return [
            Record(
                key=logs.commit_key(self.name, topic, number),
                value=logs.commit_value(
                    self.offset + number,
                    version=version,
                    commit_ms=self.now_ms,
                    metadata=self.random.choice(("", "", "höst:1")),
                    topic_id=IDS[topic] if version == 4 else None,
                    expire_ms=self.now_ms + 9 * MINUTE_MS if version == 1 and self.random.random() < 0.3 else -1,
                    **more,  # type: ignore[arg-type]
                ),
            )
            for topic in self.topics
            for number in range(2)
        ]

    def removals(self) -> list[Record]:
        """Tombstones of the same."""
        return [logs.commit(self.name, topic, number, None) for topic in self.topics for number in range(2)]


def shared(topics: Sequence[str], members: Sequence[str], turn: int) -> dict[str, Assigned]:
    """A plan that turns from generation to generation."""
    plans: dict[str, Assigned] = {name: {} for name in members}
    for place, (topic, number) in enumerate((topic, number) for topic in topics for number in range(2)):
        plans[members[(place + turn) % len(members)]].setdefault(topic, []).append(number)
    return plans


def classic(life: Life) -> Iterator[Event]:
    """Joins, leaves, a restart of a static member, and sometimes the end of the group."""
    own = life.random.random() < 0.4
    names = ["a#i-1", "b", "c#i-3", "d"]
    number = 0
    told: dict[str, Assigned] = {}
    for turn in range(life.random.randint(1, 4)):
        members = names[: life.random.randint(1, 4)]
        members = [name.replace("a#", f"a{turn}#") for name in members]
        number += life.random.choice((1, 1, 1, 2))
        if own:
            reason = life.random.choice(("session expired", f"{members[-1]} joins", "left", "a rejoins"))
            yield life.batch([bytes_of.rebalance(life.name, number - 1, told, reason, life.now_ms)])
            yield life.batch([bytes_of.candidate(life.name, number, {name: {} for name in members}, life.now_ms)])
        told = shared(life.topics, members, turn)
        at = life.now_ms - START_MS
        records = [generation(life.name, number, told, life.random.choice(("range", "sticky")), at)]
        yield life.batch([*records, *([bytes_of.gone(1000, life.name)] if own else [])])
        yield life.batch(life.commits())
        if life.random.random() < 0.2:
            renamed = {name.replace("a", "z", 1): plan for name, plan in told.items()}
            yield life.batch([generation(life.name, number, renamed, at=at)])
    if life.random.random() < 0.4:
        yield life.batch([generation(life.name, number + 1, {}, at=life.now_ms - START_MS)])
        if life.random.random() < 0.5:
            yield life.batch([*life.removals(), bytes_of.gone(2, life.name)])


def consumer(life: Life) -> Iterator[Event]:
    """KIP-848: epochs, targets, members that reach them or are overtaken, departures, deletion.

    A release before 4.3 begins with epoch 1, later ones with 2; of the former's groups compaction may have left 2.
    """
    named = {IDS[topic]: (topic, 2) for topic in life.topics}
    members: list[str] = []
    stamped = life.random.random() < 0.5
    born = 1 if stamped or life.random.random() < 0.1 else 0
    owned_now: dict[str, Assigned] = {}
    for turn in range(1, life.random.randint(2, 5)):
        number = born + turn
        joining = f"m{turn}"
        members = [*members[life.random.randint(0, 1) :], joining]
        left = [f"m{n}" for n in range(1, turn) if f"m{n}" not in members]
        instance = "static" if turn == 1 else None
        records = [bytes_of.member(life.name, joining, life.topics, instance)]
        records += [bytes_of.gone(kind, life.name, name) for name in left for kind in (8, 7, 5)]
        records += [bytes_of.topics(life.name, named)] if life.random.random() < 0.5 else []
        yield life.batch([*records, bytes_of.epoch(life.name, number)])
        if life.random.random() < 0.15:
            continue
        plans = shared(life.topics, members, turn)
        targets = [bytes_of.target(life.name, name, by_id(plan)) for name, plan in plans.items()]
        at_ms = life.now_ms if stamped else None
        yield life.batch([*targets, bytes_of.target_epoch(life.name, number, at_ms)])
        for name, plan in plans.items():
            yield from reconciled(life, name, number, owned_now.get(name, {}), plan)
        owned_now = plans
        yield life.batch(life.commits())
    if life.random.random() < 0.3:
        parts = [bytes_of.gone(kind, life.name, name) for name in members for kind in (8, 7, 5)]
        yield life.batch(parts)
        yield life.batch([*life.removals(), bytes_of.gone(6, life.name), bytes_of.gone(3, life.name)])


def reconciled(life: Life, name: str, number: int, before: Assigned, plan: Assigned) -> Iterator[Event]:
    """As CurrentAssignmentBuilder does it: revoke in the old epoch, go to the new one, wait for what others release."""
    kept = {topic: [one for one in numbers if one in plan.get(topic, [])] for topic, numbers in before.items()}
    lost = {topic: [one for one in numbers if one not in plan.get(topic, [])] for topic, numbers in before.items()}
    if any(lost.values()):
        yield life.batch([bytes_of.current(life.name, name, number - 1, by_id(kept), by_id(lost))])
    if plan and life.random.random() < 0.5:
        first = dict(list(plan.items())[1:])
        yield life.batch([bytes_of.current(life.name, name, number, by_id(first), {}, bytes_of.UNRELEASED)])
    yield life.batch([bytes_of.current(life.name, name, number, by_id(plan), {})])


def sharers(life: Life) -> Iterator[Event]:
    """A share group: all members read all partitions; no offsets are committed."""
    members: list[str] = []
    named = {IDS[topic]: (topic, 2) for topic in life.topics}
    everything = {topic: [0, 1] for topic in life.topics}
    for number in range(2, life.random.randint(3, 5)):
        members.append(f"s{number}")
        joins = [bytes_of.share_member(life.name, members[-1], life.topics)]
        yield life.batch(
            [*joins, bytes_of.hashed_epoch(11, life.name, number), bytes_of.share_topics(life.name, named)]
        )
        targets = [bytes_of.target(life.name, name, by_id(everything), kind=13) for name in members]
        yield life.batch([*targets, bytes_of.target_epoch(life.name, number, life.now_ms, kind=12)])
        for name in members:
            yield life.batch([bytes_of.share_current(life.name, name, number, by_id(everything))])
    if life.random.random() < 0.4:
        yield life.batch([bytes_of.gone(kind, life.name, name) for name in members for kind in (14, 13, 10)])
        yield life.batch([bytes_of.gone(kind, life.name) for kind in (12, 11, 15)])


def streams(life: Life) -> Iterator[Event]:
    """A Streams group of two subtopologies, one with a repartition topic, that grows and perhaps ends."""
    members: list[str] = []
    first, second = life.topics
    parts: dict[str, tuple[list[str], list[str]]] = {"0": ([first], []), "1": ([], [second])}
    validated = life.random.choice((None, 0, 0, 9))
    for number in range(2, life.random.randint(3, 6)):
        instance = "static" if number == 2 else None
        members.append(f"k{number}")
        records = [bytes_of.topology(life.name, 0, parts)] if number == 2 and life.random.random() < 0.9 else []
        records += [bytes_of.streams_member(life.name, members[-1], 0, instance)]
        yield life.batch([*records, bytes_of.hashed_epoch(17, life.name, number, validated)])
        if life.random.random() < 0.1:
            continue
        plans: dict[str, dict[str, list[int]]] = {name: {} for name in members}
        for place, task in enumerate((part, one) for part in parts for one in range(2)):
            plans[members[(place + number) % len(members)]].setdefault(task[0], []).append(task[1])
        targets = [bytes_of.streams_target(life.name, name, plan) for name, plan in plans.items()]
        yield life.batch([*targets, bytes_of.target_epoch(life.name, number, life.now_ms, kind=20)])
        for name, plan in plans.items():
            if life.random.random() < 0.4:
                half = dict(list(plan.items())[1:])
                yield life.batch([bytes_of.streams_current(life.name, name, number, half, {}, bytes_of.UNRELEASED)])
            yield life.batch([bytes_of.streams_current(life.name, name, number, plan, {})])
        yield life.batch(life.commits())
    if life.random.random() < 0.4:
        parting = [bytes_of.gone(kind, life.name, name) for name in members for kind in (22, 21, 19)]
        yield life.batch(parting)
        if life.random.random() < 0.5:
            ends = [bytes_of.gone(kind, life.name) for kind in (20, 17, 23)]
            yield life.batch([*life.removals(), *ends])


def strange(life: Life) -> Iterator[Event]:
    """Commits, and a record that no release so far can read; some of them end and begin as what is known."""
    yield life.batch(life.commits())
    yield life.batch([bytes_of.of_the_future(life.name)])
    yield life.batch(life.commits())
    chance = life.random.random()
    if chance < 0.3:
        plans = shared(life.topics, ["a"], 0)
        yield life.batch([generation(life.name, 1, plans, at=life.now_ms - START_MS)])
    elif chance < 0.5:
        yield life.batch([bytes_of.gone(3, life.name)])


def by_id(assigned: Assigned) -> Mapping[bytes, Sequence[int]]:
    return {IDS[topic]: numbers for topic, numbers in assigned.items()}


def simple(life: Life) -> Iterator[Event]:
    """Commits by hand, without members."""
    for _ in range(life.random.randint(2, 8)):
        yield life.batch(life.commits())
    if life.random.random() < 0.3:
        yield life.batch(life.removals())
        if life.random.random() < 0.5:
            yield life.batch(life.commits())


def transactional(life: Life) -> Iterator[Event]:
    """Offsets in transactions: committed, aborted, replaced, overtaken by plain ones, removed, never ended."""
    producer = life.random.randint(1, 1 << 40)
    inside = {"transactional": True, "producer_id": producer, "producer_epoch": 0}
    for _ in range(life.random.randint(1, 4)):
        yield life.batch(life.commits(), **inside)
        chance = life.random.random()
        if chance < 0.2:
            yield life.batch(life.commits(), **inside)
        elif chance < 0.4:
            yield life.batch(life.commits())
        elif chance < 0.5:
            yield life.batch(life.removals()[:2])
        if life.random.random() < 0.8:
            yield life.batch([logs.marker(life.random.choice((0, 1, 1)))], control=True, **inside)


KINDS = (
    *(classic, classic, classic, consumer, consumer, consumer, simple, simple, transactional, transactional),
    *(streams, sharers, strange),
)


def batches(groups: int, log_partition: int) -> list[Batch]:
    """The log of a partition: its share of the groups; leader epochs rise twice."""
    events: list[Event] = []
    for number in range(log_partition, groups, PARTITIONS):
        chance = random.Random(number)
        topics = tuple(chance.sample(TOPICS, 2))
        life = Life(f"group-{number:05}", chance, START_MS + chance.randint(0, 10 * MINUTE_MS), topics)  # type: ignore[arg-type]
        events += KINDS[number // PARTITIONS % len(KINDS)](life)
    events.sort(key=lambda event: event[0])
    third = len(events) // 3 + 1
    return [replace(batch, epoch=place // third) for place, (_, batch) in enumerate(events)]


def samples(groups_end_ms: int) -> list[tuple[str, int, int, int, int | None]]:
    """Log ends of most topics, some of which went back or ended below what is committed."""
    chance = random.Random(0)
    found = []
    for topic in TOPICS[: len(TOPICS) - 3]:
        for number in range(2):
            end = chance.choice((0, 40, 400))
            for at in range(START_MS + chance.randint(0, 9 * MINUTE_MS), groups_end_ms, 7 * MINUTE_MS + 311):
                end = max(0, end + chance.choice((0, 3, 80, 80, -30)))
                found.append((topic, number, at, end, chance.choice((None, 0, 4))))
    return found
