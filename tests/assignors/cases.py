"""Random groups for assignor tests, and the Java client's answers to them.

`random_case` draws groups as they occur: fresh ones, ones that lived through a few rebalances (members and topics come
and go, partitions grow), with stale and doubled claims of ownership, static members and racks. Everything comes from
the `random.Random` given.
"""

import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from muster_coordinator.groups.assignors.consumer_protocol import encode_cooperative_user_data, encode_sticky_user_data
from muster_coordinator.groups.assignors.membership import Member, Plan, Subscription, TopicPartition, Topology
from muster_coordinator.groups.assignors.registry import assignor

from tests import java_tools

JAVA_TIMEOUT_S = 100.0
HARNESS = Path(__file__).resolve().parent / "java" / "AssignorHarness.java"
RACKS = ("ra", "rb", "rc")


@dataclass(frozen=True)
class Case:
    """One question to an assignor."""

    assignor: str
    members: tuple[Member, ...]
    topology: Topology

    def plan(self) -> Plan:
        return assignor(self.assignor).assign(self.members, self.topology)


def random_case(rng: random.Random, name: str, *, equal: bool, racks: bool = False) -> Case:
    """A group in front of a rebalance. `equal`: all members subscribe to the same topics."""
    topology = _random_topology(rng, racks=racks)
    count = rng.choice((1, 2, 3, 4, 5, 8, 13, 20))
    members = [_random_member(rng, i, topology, racks=racks) for i in range(count)]
    if equal:
        members = _same_topics(members)
    rng.shuffle(members)
    generation = rng.randrange(1, 5)
    for _ in range(rng.randrange(4)):
        members = _live_through(rng, name, members, topology, generation)
        members, topology = _change(rng, members, topology, equal=equal, racks=racks)
        generation += 1
    return Case(name, tuple(members), topology)


def _random_topology(rng: random.Random, *, racks: bool) -> Topology:
    counts = {f"t{i}": rng.randrange(1, 9) for i in rng.sample(range(100), rng.randrange(1, 7))}
    topology = Topology(counts)
    return _with_racks(rng, topology) if racks else topology


def _with_racks(rng: random.Random, topology: Topology) -> Topology:
    racks = dict(topology.racks)
    for topic, count in topology.partitions.items():
        for partition in range(count):
            racks.setdefault(TopicPartition(topic, partition), frozenset(rng.sample(RACKS, rng.randrange(4))))
    return Topology(topology.partitions, racks)


def _random_member(rng: random.Random, i: int, topology: Topology, *, racks: bool) -> Member:
    known = list(topology.partitions)
    topics = rng.sample(known, rng.randrange(1, len(known) + 1))
    rack = rng.choice((*RACKS, None)) if racks else None
    instance = f"i{rng.randrange(100)}-{i}" if rng.random() < 0.3 else None
    member_id = f"{rng.choice(('consumer', 'c', 'app'))}-{i}-{rng.randrange(1 << 30):08x}"
    return Member(member_id, Subscription(topics=tuple(topics), rack_id=rack), instance)


def _same_topics(members: Sequence[Member]) -> list[Member]:
    topics = members[0].subscription.topics
    return [member._replace(subscription=replace(member.subscription, topics=topics)) for member in members]


def _live_through(
    rng: random.Random, name: str, members: Sequence[Member], topology: Topology, generation: int
) -> list[Member]:
    """Members as they join after a generation in which they had the plan of `name`; some slept through it."""
    plan = assignor(name).assign(members, topology)
    after = []
    for member in members:
        owned = tuple(plan[member.member_id])
        if rng.random() < 0.1 and member.subscription.owned:
            after.append(member)
        elif name == "sticky":
            data = encode_sticky_user_data(owned, generation)
            subscription = replace(member.subscription, user_data=data, generation_id=generation)
            after.append(member._replace(subscription=subscription))
        else:
            told = generation if rng.random() < 0.9 else -1
            subscription = replace(
                member.subscription,
                owned=owned,
                generation_id=told,
                user_data=encode_cooperative_user_data(generation) if rng.random() < 0.5 else None,
            )
            after.append(member._replace(subscription=subscription))
    return after


def _change(
    rng: random.Random, members: list[Member], topology: Topology, *, equal: bool, racks: bool
) -> tuple[list[Member], Topology]:
    counts = dict(topology.partitions)
    what = rng.randrange(6)
    if what == 0 and len(members) > 1:
        members = rng.sample(members, rng.randrange(1, len(members)))
    elif what == 1:
        first = len(members) + rng.randrange(1000)
        members += [_random_member(rng, first + i, topology, racks=racks) for i in range(rng.randrange(1, 5))]
    elif what == 2:
        counts[rng.choice(list(counts))] += rng.randrange(1, 5)
    elif what == 3 and len(counts) > 1:
        del counts[rng.choice(list(counts))]
    elif what == 4:
        i = rng.randrange(len(members))
        topics = tuple(rng.sample(list(counts), rng.randrange(1, len(counts) + 1)))
        members[i] = members[i]._replace(subscription=replace(members[i].subscription, topics=topics))
    else:
        members = [_doubled(rng, member, members) for member in members]
    topology = Topology(counts, topology.racks)
    if racks:
        topology = _with_racks(rng, topology)
    members = _same_topics(members) if equal else members
    rng.shuffle(members)
    return members, topology


def _doubled(rng: random.Random, member: Member, members: Sequence[Member]) -> Member:
    """Now and then a member that claims what another one owns."""
    other = rng.choice(members)
    if rng.random() > 0.1 or not other.subscription.owned or other is member:
        return member
    owned = dict.fromkeys((*member.subscription.owned, rng.choice(other.subscription.owned)))
    return member._replace(subscription=replace(member.subscription, owned=tuple(owned)))


def ask_java(questions: Sequence[str]) -> list[str]:
    """Answers of the harness (its protocol: AssignorHarness.java), from one JVM."""
    class_path = java_tools.classpath(java_tools.KAFKA_CLIENTS, java_tools.SLF4J_SILENT)
    class_path = java_tools.compile_java([HARNESS], class_path)
    done = subprocess.run(
        [java_tools.java_command(), "-XX:+UseSerialGC", "-Xmx256m", "-cp", class_path, "AssignorHarness"],
        input="\n".join(questions) + "\n",
        capture_output=True,
        text=True,
        timeout=JAVA_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(questions)
    return answers


def java_plans(cases: Sequence[Case]) -> list[Plan | str]:
    """Plans of the Java client's assignors; a text where it threw."""
    plans: list[Plan | str] = []
    for answer in ask_java([facts(case.members, case.topology) + f"\nassign {case.assignor}" for case in cases]):
        plans.append(answer if answer.startswith("error ") else _parsed(answer))
    return plans


def facts(members: Sequence[Member], topology: Topology) -> str:
    """`topic` and `member` lines of the harness."""
    lines = []
    for topic, count in topology.partitions.items():
        racks = (topology.racks.get(TopicPartition(topic, p), frozenset()) for p in range(count))
        lines.append(f"topic {topic} " + ";".join(",".join(sorted(those)) or "-" for those in racks))
    for member in members:
        one = member.subscription
        words = [member.member_id, member.instance_id or "-", one.rack_id or "-", str(one.generation_id)]
        words.append(one.user_data.hex() if one.user_data else "-")
        words.append(",".join(one.topics) or "-")
        words.append(",".join(f"{tp.topic}:{tp.partition}" for tp in one.owned) or "-")
        lines.append("member " + " ".join(words))
    return "\n".join(lines)


def _parsed(answer: str) -> Plan:
    plan: Plan = {}
    for word in answer.split():
        member_id, _, assigned = word.partition("=")
        pairs = (one.rpartition(":") for one in assigned.split(",") if assigned != "-")
        plan[member_id] = sorted(TopicPartition(topic, int(partition)) for topic, _, partition in pairs)
    return plan
