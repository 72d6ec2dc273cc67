"""One run of a cluster that grows, shrinks and has its folders replaced under clients, and what they made of it.

Servers: three found the cluster, others join and leave again (`muster cluster decommission`), then founders lose their
folders one after the other (`muster cluster replace`), the controller's leader first. The balancer moves what there is
to move, and whoever carries out a step of a move is killed at it (`steps`). Clients: a group of librdkafka, aiokafka
and Java members that read all that idempotent producers of librdkafka and Java write, and registers of committed
offsets.

What clients are promised through it is judged by `checks`, as under faults, and three things more that hold because
nothing but brokers changes: the group has one generation from beginning to end and each of its members reads every
record once and in order; no client tells of an error that it does not repeat by itself; and no group pauses for longer
than a fail-over.
"""

import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.cli.exits import Exit

from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.faults import producers, registers
from tests.faults.checks import Claim, Seen, check, operations
from tests.faults.machine_probe import MachineProbe
from tests.faults.pauses import Pause, longest_pauses, story
from tests.faults.producers import logs
from tests.faults.steps import Logs, Step
from tests.integration.test_replaced_replica import all_changed, controller, data_of, folder_of, muster, replace

FOUNDERS = 3
GROUP = "through-it-all"
CLIENTS = ("librdkafka", "aiokafka", "java")
SESSION_MS = 10_000
PACE_S = 0.05
"""Of each of the three clients of a group of registers: a pause is seen to a tenth of a second."""
PRODUCE_EVERY_S = 0.04
STEP_TIMEOUT_S = 60
LEVEL_TIMEOUT_S = 180
READY_TIMEOUT_S = 60
SETTINGS = {
    "muster.balancer.quiet.ms": "1000",
    "muster.leadership.takeback.ms": "1000",
    "muster.segment.flush.ms": "500",
    "muster.decommission.redirect.ms": "3000",
}
COPIED = {"muster.checkpoint.bytes": "4096", "muster.raft.trailing.entries": "0"}
"""A log of some seconds is compacted too, and who is new gets a copy of files before the entries."""


class Form(NamedTuple):
    """How much of it."""

    newcomers: tuple[int, ...]
    growing: Sequence[Step]
    """Steps at which somebody is killed while brokers come, each once."""
    shrinking: Sequence[Step]
    """... and while they go."""
    replaced: int
    """How many founders."""
    pause_s_max: float
    """For how long no group may pause."""
    level_timeout_s: int = LEVEL_TIMEOUT_S


class Result(NamedTuple):
    seconds: float
    counts: dict[str, int]
    killed: list[str]
    """The steps at which somebody was."""
    found: list[str]
    """What was promised and did not hold."""
    pauses: dict[str, Pause]
    """Group -> its longest."""

    def __str__(self) -> str:
        counts = ", ".join(f"{number:,} {what}" for what, number in self.counts.items())
        longest = max(self.pauses.values()).seconds
        return f"{counts}; killed at {self.killed}; longest pause {longest:.2f} s; {self.found}; {self.seconds:.0f} s"


Say = Callable[[str], None]


def command(cluster: MusterCluster, *words: str) -> None:
    """As the runbook says, asked again while the controller's leader is not known to all."""

    def done() -> bool:
        answer = muster(cluster, *words)
        assert answer.returncode in (Exit.OK, Exit.UNREACHABLE), (answer.stdout, answer.stderr)
        return answer.returncode == Exit.OK

    wait_until(" ".join(words), done, 30, every=0.5)


class _Run:
    def __init__(self, cluster: MusterCluster, form: Form, say: Say) -> None:
        self.cluster, self.form, self.say = cluster, form, say
        self.brokers = set(range(FOUNDERS))
        self.killed: list[str] = []
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def change(self) -> None:
        for broker in self.form.newcomers:
            self.cluster.add_replica(broker)
            self.brokers.add(broker)
            self.say(f"broker {broker} has joined")
        self._through(self.form.growing, self.is_level)
        for broker in self.form.newcomers:
            command(self.cluster, "decommission", str(broker))
        self.brokers -= set(self.form.newcomers)
        self._through(self.form.shrinking, self.are_gone)
        for broker in self.form.newcomers:
            self.cluster.kill(broker)
        self.say("they are gone")
        first = controller(self.cluster)
        for broker in [(first + n) % FOUNDERS for n in range(self.form.replaced)]:
            self._replace(broker)

    def _through(self, steps: Iterable[Step], done: Callable[[], bool]) -> None:
        """Somebody is killed at each of these steps, then all goes on until it is done. While one of them is away the
        balancer is paused: else a slow machine has nothing left to move when it is back."""
        logs = self._logs()
        for step in steps:
            broker = logs.await_step(step, STEP_TIMEOUT_S, done)
            if broker is None:
                self.say(f"nobody came to: {step.name}")
                continue
            self.cluster.kill(broker)
            self.say(f"broker {broker} killed when {step.name}")
            self.killed.append(step.name)
            command(self.cluster, "balance", "--pause")
            # One that is to leave has left if it was empty when it died.
            self.cluster.start_replica(broker, wait_ready=broker in self.brokers)
            logs = self._logs()
            command(self.cluster, "balance", "--resume")
        wait_until("all is where it is to be", done, self.form.level_timeout_s, every=0.5)

    def _logs(self) -> Logs:
        return Logs(self.log_paths())

    def log_paths(self) -> list[Path]:
        return [self.cluster.output, *sorted(self.cluster.folder.glob("replica-*/server.log"))]

    def _replace(self, broker: int) -> None:
        folder = folder_of(self.cluster, broker)
        self.cluster.kill(broker)
        shutil.rmtree(data_of(self.cluster, broker))
        self.cluster.start_replica(broker, wait_ready=False)
        replace(self.cluster, broker, folder)
        self.cluster.wait_ready(broker, READY_TIMEOUT_S)
        wait_until("every group has the new member", lambda: all_changed(self.cluster), READY_TIMEOUT_S, every=0.5)
        self.say(f"the folder of broker {broker} is replaced")

    def held(self) -> dict[int, int]:
        """Replicas of each broker, by what clients are told."""
        found = dict.fromkeys(self.brokers, 0)
        for topic in self.admin.list_topics(timeout=20).topics.values():
            for partition in topic.partitions.values():
                for broker in partition.replicas:
                    found[broker] = found.get(broker, 0) + 1
        return found

    def is_level(self) -> bool:
        held = self.held().values()
        return max(held) - min(held) <= 1 and self._nothing_moves()

    def are_gone(self) -> bool:
        return {one["broker"] for one in self.cluster.status(0)["brokers"]} == self.brokers

    def _nothing_moves(self) -> bool:
        return not any(self.cluster.status(broker)["groups_to_change"] for broker in self.brokers)


def run(cluster: MusterCluster, form: Form, seed: int, say: Say) -> Result:
    """`cluster` runs already, three replicas with room for the newcomers. Ends every client that it starts."""
    everyone = (*range(FOUNDERS), *form.newcomers)
    bootstrap = ",".join(f"127.0.0.1:{cluster.client_port(broker)}" for broker in everyone)
    began = time.monotonic()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    wanted = {producers.TOPIC: producers.PARTITIONS, registers.TOPIC: registers.PARTITIONS}
    for future in admin.create_topics([NewTopic(*one, -1) for one in wanted.items()], operation_timeout=20).values():
        future.result(20)
    with ExitStack() as stack:
        members = [_member(client, bootstrap) for client in CLIENTS]
        for member in members:
            stack.callback(member.dispose)
        offsets = registers.RegisterLoad(bootstrap, seed, pause_s=PACE_S)
        stack.callback(offsets.ended.set)
        sending: list[producers.Librdkafka | producers.Program] = [
            producers.Librdkafka(bootstrap, (0, 1, 2), pace_s=PRODUCE_EVERY_S),
            producers.java(bootstrap, (3, 4, 5), pace_s=PRODUCE_EVERY_S),
        ]
        for producer in sending:
            stack.callback(producer.dispose)
            producer.start()
        offsets.start()
        wait_until("all are served", lambda: not offsets.unserved(1), 60)
        wait_until("the group is whole", lambda: _whole(members), 150)
        marks = [len(member.events) for member in members]
        since_us = registers.now_us()
        probe = MachineProbe(cluster.folder)
        stack.callback(probe.finish)
        probe.start()

        def tell(what: str) -> None:
            say(f"{time.monotonic() - began:6.1f} s  {what}")

        tell("all are served")
        this = _Run(cluster, form, tell)
        this.change()
        changed_us = registers.now_us()
        wait_until("all are served", lambda: not offsets.unserved(changed_us), 30)
        offsets.finish()
        tell(probe.finish())
        produced = [one for producer in sending for one in producer.produced()]
        left = logs(cluster.bootstrap)
        for member in members:
            _await_end(member, left)
        claims = [claim for member in members for claim in _claims(member)]
        seen = Seen(offsets.history, produced, left, claims, offsets.unserved(changed_us))
        pauses = longest_pauses(offsets, since_us)
        found = [
            *(f"{one.rule}: {one.text}" for one in check(seen)),
            *(text for member, mark in zip(members, marks, strict=True) for text in _disturbed(member, mark)),
            *(text for member in members for text in _read_once(member)),
            *(f"{one.producer} gave up {len(one.failed)} records" for one in produced if one.failed),
            *(
                f"{group} paused for {pause.seconds:.2f} s, {pause.began_s:.1f} s after all were served"
                for group, pause in pauses.items()
                if pause.seconds > form.pause_s_max
            ),
        ]
        for group, pause in pauses.items():
            if pause.seconds > form.pause_s_max / 2:
                for line in story(offsets, group, pause, since_us, this.log_paths(), datetime.now(UTC)):
                    say(line)
        return Result(time.monotonic() - began, operations(seen), this.killed, found, pauses)


def _member(client: str, bootstrap: str) -> Member:
    return Member(
        client,
        bootstrap=bootstrap,
        group=GROUP,
        topics=[producers.TOPIC],
        session_ms=SESSION_MS,
        auto_commit_ms=500,
        client_id=client,
    )


def _whole(members: Sequence[Member]) -> bool:
    """Each has its share, in one generation, and reads."""
    shares = [len(member.assigned) for member in members]
    last = {claims[-1].generation if (claims := _claims(member)) else -1 for member in members}
    return (
        shares == [producers.PARTITIONS // len(CLIENTS)] * len(CLIENTS)
        and len(last) == 1
        and all(member.records for member in members)
    )


def _claims(member: Member) -> list[Claim]:
    return [
        Claim(GROUP, event["generation"], event["member"], frozenset((topic, number) for topic, number in event["tps"]))
        for event in member.events
        if event["e"] == "assigned" and event["generation"] >= 0
    ]


def _disturbed(member: Member, mark: int) -> list[str]:
    """What a member told since, besides its records and commits that succeeded."""
    harmless = ("records", "committed")
    told = [event for event in member.events[mark:] if event["e"] not in harmless]
    ended = member.ended()
    return [*(f"{member.client} tells {event}" for event in told), *([] if ended is None else [ended])]


def _await_end(member: Member, left: dict[int, list[str]]) -> None:
    """Until the member has read the last record of each of its partitions."""

    def at_end(it: Member) -> bool:
        last = {partition: offset for _, partition, offset, _, _ in it.records}
        return all(last.get(number, -1) == len(left[number]) - 1 for _, number in it.assigned)

    member.wait("the end of its partitions", at_end, 60)


def _read_once(member: Member) -> list[str]:
    """Each partition from its first record that this member read on, without a gap or a repeat."""
    read: dict[int, list[int]] = defaultdict(list)
    for _, partition, offset, _, _ in member.records:
        if ("produced", partition) in member.assigned:
            read[partition].append(offset)
    return [
        f"{member.client} read {two} after {one} of partition {partition}"
        for partition, offsets in read.items()
        for one, two in pairwise(offsets)
        if two != one + 1
    ]
