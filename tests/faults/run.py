"""One run: servers, clients of every kind, faults by a plan, and the verdict of `checks` on what the clients saw."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.cluster import wait_until
from tests.faults import members, producers, registers
from tests.faults.checks import Found, Seen, check, operations
from tests.faults.plan import Fault
from tests.faults.sides import Servers

WARM_UP_TIMEOUT_S = 90
AFTER_TIMEOUT_S = 240
"""For all clients to be served again, and for as many operations as were asked for."""

CHANGES_MIN = 8
"""Members that froze, died or left before the groups are let alone; a short plan leaves time for fewer."""

Say = Callable[[str], None]


class Result(NamedTuple):
    seconds: float
    counts: dict[str, int]
    found: list[Found]
    failed: int
    """Records that producers gave up."""

    @property
    def operations(self) -> int:
        """Commits and fetches of offsets that were answered and judged."""
        return self.counts["commits"] + self.counts["reads"]

    def __str__(self) -> str:
        counts = ", ".join(f"{number:,} {what}" for what, number in self.counts.items())
        return f"{counts}; {self.failed} records given up; {len(self.found)} violations; {self.seconds:.0f} s"


class Tools(NamedTuple):
    """What this machine has beside Python."""

    go: Path | None
    java: bool


def run(
    servers: Servers,
    plan: Sequence[Fault],
    seed: int,
    tools: Tools,
    operations_min: int,
    say: Say,
    *,
    pace_s: float = producers.PACE_S,
    pause_s: float = registers.PAUSE_S,
) -> Result:
    """`servers` run already. Ends every client that it starts. `pace_s`: of the producers, between two numbers.
    `pause_s`: of each client of offsets, between two requests."""
    topics = {registers.TOPIC: registers.PARTITIONS, members.TOPIC: members.PARTITIONS}
    servers.create_topics({**topics, producers.TOPIC: producers.PARTITIONS})
    began = time.monotonic()

    def tell(what: str) -> None:
        say(f"{time.monotonic() - began:6.1f} s  {what}")

    with ExitStack() as stack:
        offsets = registers.RegisterLoad(servers.bootstrap, seed, pause_s=pause_s)
        stack.callback(offsets.ended.set)
        sending: list[producers.Librdkafka | producers.Program] = [
            producers.Librdkafka(servers.bootstrap, (0, 1), pace_s=pace_s)
        ]
        if tools.java:
            sending.append(producers.java(servers.bootstrap, (2, 3), pace_s=pace_s))
        if tools.go is not None:
            sending.append(producers.franz_go(tools.go, servers.bootstrap, (4, 5)))
        for producer in sending:
            stack.callback(producer.dispose)
        groups = members.MemberLoad(servers.bootstrap, seed, java=tools.java)
        stack.callback(groups.dispose)
        offsets.start()
        for producer in sending:
            producer.start()
        wait_until("all are served", lambda: not offsets.unserved(1), WARM_UP_TIMEOUT_S)
        wait_until("everybody owns something", lambda: all(s.member.assigned for s in groups.seats), WARM_UP_TIMEOUT_S)
        groups.start()
        _faults(servers, plan, tell)
        whole_us = registers.now_us()
        _until(lambda: not offsets.unserved(whole_us))
        unserved = offsets.unserved(whole_us)
        tell(f"{offsets.done:,} operations; clients without a success: {unserved or None}")
        _until(lambda: groups.changes >= CHANGES_MIN or not groups.is_alive())
        unserved += groups.settle()
        tell("the groups are settled")
        for how in groups.ended_alone:
            tell(how)
        offsets.pause_s = min(pause_s, registers.PAUSE_S)  # what is missing of them comes fast
        _until(lambda: offsets.done >= operations_min)
        offsets.finish()
        produced = [one for producer in sending for one in producer.produced()]
        logs = producers.logs(servers.bootstrap)
        tell("everything is read")
        seen = Seen(offsets.history, produced, logs, groups.claims(), unserved)
        failed = sum(len(one.failed) for one in produced)
        for one in produced:
            if one.failed:
                tell(f"{one.producer} gave up {len(one.failed)} of {one.sent} records to partition {one.partition}")
        return Result(time.monotonic() - began, operations(seen), check(seen), failed)


def _faults(servers: Servers, plan: Sequence[Fault], tell: Say) -> None:
    for number, fault in enumerate(plan, 1):
        tell(f"{number}/{len(plan)}  {fault}")
        servers.hurt(fault)
        time.sleep(fault.hold_ms / 1000)
        servers.heal(fault)
        servers.wait_whole()
        time.sleep(fault.rest_ms / 1000)


def _until(true: Callable[[], bool]) -> None:
    """What is not true in time is told by the counts and the list of who was not served."""
    deadline = time.monotonic() + AFTER_TIMEOUT_S
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)
