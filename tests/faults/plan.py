"""Which processes are hurt, how and for how long: drawn from a seed alone, so that a run can be told and made again.

Kills and freezes of one server, of two, and of all at once; every kind comes up in any twelve faults. A fault of two or
three servers leaves no quorum until it ends. Between faults everything is whole again: a driver waits for that, then
rests.
"""

from random import Random
from typing import NamedTuple

KILL, FREEZE = "SIGKILL", "SIGSTOP"
HOLD_MS_MAX = 4_500
"""Longer than an election, a detector of silence and the patience of the clients that ask in single frames."""
REST_MS_MAX = 1_500


class Fault(NamedTuple):
    signal: str
    servers: tuple[int, ...]
    hold_ms: int
    """Until the killed are started again, or the frozen go on."""
    rest_ms: int
    """After the servers are whole again, before the next fault."""

    def __str__(self) -> str:
        who = "all" if len(self.servers) > 2 else " and ".join(map(str, self.servers))
        return f"{self.signal} of {who} for {self.hold_ms} ms"


def draw(seed: int, count: int, servers: int = 3) -> list[Fault]:
    """`count` faults. Each round of six has both kinds for one, two and all servers, in an order of its own."""
    rand = Random(seed)
    faults: list[Fault] = []
    while len(faults) < count:
        kinds = [(signal, size) for signal in (KILL, FREEZE) for size in (1, 2, servers)]
        rand.shuffle(kinds)
        for signal, size in kinds:
            who = tuple(sorted(rand.sample(range(servers), size)))
            # Short ones are over before anybody else leads; long ones see an election, or two.
            hold_ms = rand.choice((rand.randint(50, 600), rand.randint(1_000, HOLD_MS_MAX)))
            faults.append(Fault(signal, who, hold_ms, rand.randint(0, REST_MS_MAX)))
    return faults[:count]
