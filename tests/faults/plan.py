"""Which processes are hurt, how and for how long: drawn from a seed alone, so that a run can be told and made again.

Kills and freezes of one server, of two, and of all at once, steps of the wall clock of one and of all, forth and back;
every kind comes up in the first twelve faults. A kill or freeze of two or three leaves no quorum until it ends. Between
faults everything is whole again: a driver waits for that, then rests.
"""

from random import Random
from typing import NamedTuple

KILL, FREEZE, CLOCK = "SIGKILL", "SIGSTOP", "clock"
STEPS_MS = (-1_800_000, -61_000, -1_500, 900, 61_000, 86_400_000)
"""Within every retention: what a step makes expire is gone by right. And back by less than an hour: a server refuses
records that are more than that ahead of it (`message.timestamp.after.max.ms`), in so many words."""
HOLD_MS_MAX = 4_500
"""Longer than an election, a detector of silence and the patience of the clients that ask in single frames."""
REST_MS_MAX = 1_500


class Fault(NamedTuple):
    kind: str
    servers: tuple[int, ...]
    hold_ms: int
    """Until the killed are started again, or the frozen go on."""
    rest_ms: int
    """After the servers are whole again, before the next fault."""
    step_ms: int
    """Of their wall clocks."""

    def __str__(self) -> str:
        who = "all" if len(self.servers) > 2 else " and ".join(map(str, self.servers))
        step = f" stepped by {self.step_ms} ms" if self.kind == CLOCK else ""
        return f"{self.kind} of {who}{step} for {self.hold_ms} ms"


def draw(seed: int, count: int, *, clocks: bool, servers: int = 3) -> list[Fault]:
    """`count` faults. Each round has every kind once, in an order of its own; `clocks`: steps too."""
    rand = Random(seed)
    faults: list[Fault] = []
    while len(faults) < count:
        kinds = [(kind, size) for kind in (KILL, FREEZE) for size in (1, 2, servers)]
        if clocks:
            kinds += [(CLOCK, 1), (CLOCK, servers)]
        rand.shuffle(kinds)
        for kind, size in kinds:
            who = tuple(sorted(rand.sample(range(servers), size)))
            # Short ones are over before anybody else leads; long ones see an election, or two.
            hold_ms = rand.choice((rand.randint(50, 600), rand.randint(1_000, HOLD_MS_MAX)))
            step_ms = rand.choice(STEPS_MS) if kind == CLOCK else 0
            faults.append(Fault(kind, who, hold_ms, rand.randint(0, REST_MS_MAX), step_ms))
    return faults[:count]
