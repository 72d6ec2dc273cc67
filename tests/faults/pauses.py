"""For how long a group was served by nobody, and what was said meanwhile: by its clients, and by every server.

A pause that is too long is found once in some runs, and the servers' logs are gone with the folder. So the finding
carries them: each request that began or ended in the pause, and the events of all processes around it.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.faults import registers
from tests.sim.history import Op

AROUND_S = 1.0
"""Events of the servers are shown from so long before the pause on."""
LINES_MAX = 150


class Pause(NamedTuple):
    seconds: float
    began_s: float
    """Since all were served first."""


def succeeded(op: Op) -> bool:
    answer = op.answer
    return 0 in answer.values() if isinstance(answer, dict) else getattr(answer, "error", -1) == 0


def longest_pauses(load: registers.RegisterLoad, since_us: int) -> dict[str, Pause]:
    """Group -> the longest time without any answer of success to its clients, and when it began."""
    served: dict[str, list[int]] = defaultdict(list)
    for op in load.history.ops:
        if op.answered_us is not None and op.answered_us >= since_us and succeeded(op):
            served[op.group].append(op.answered_us)
    return {
        group: max(
            (Pause((two - one) / 1e6, (one - since_us) / 1e6) for one, two in pairwise(sorted(times))),
            default=Pause(0.0, 0.0),
        )
        for group, times in sorted(served.items())
    }


def requests(ops: Iterable[Op], group: str, began_us: int, ended_us: int) -> list[str]:
    """A line for each request of the group that was under way in that time."""
    return [
        f"{(op.sent_us - began_us) / 1e3:7.0f} ms  {op.client} sends {op.api}, "
        + ("no answer" if op.answered_us is None else f"{(op.answered_us - op.sent_us) / 1e3:.0f} ms: {op.answer}")
        for op in ops
        if op.group == group
        and op.sent_us <= ended_us
        and (op.answered_us is None or op.answered_us >= began_us)
        # One without an answer was given up after some seconds; older ones are no part of this.
        and op.sent_us >= began_us - 5_000_000
    ]


def events(logs: Iterable[Path], began: datetime, ended: datetime) -> list[str]:
    """What the servers told in that time, by their own clocks, in order."""
    found = []
    for path in logs:
        for line in path.read_bytes().split(b"\n"):
            try:
                told = json.loads(line)
                moment = datetime.fromisoformat(told["ts"])
            except (ValueError, KeyError, TypeError):
                continue  # of another process' output
            if began <= moment <= ended:
                found.append((moment, line.decode(errors="replace")))
    return [line for _, line in sorted(found)]


def story(
    load: registers.RegisterLoad, group: str, pause: Pause, since_us: int, logs: Iterable[Path], now: datetime
) -> list[str]:
    """Both, of one pause. `now`: wall-clock time of this call."""
    began_us = since_us + round(pause.began_s * 1e6)
    began = now - timedelta(microseconds=registers.now_us() - began_us)
    ended = began + timedelta(seconds=pause.seconds)
    asked = requests(load.history.ops, group, began_us, began_us + round(pause.seconds * 1e6))
    refused = [
        f"{(at - began_us) / 1e3:7.0f} ms  {text}"
        for at, of, text in load.refusals
        if of == group and 0 <= at - began_us <= pause.seconds * 1e6
    ]
    told = events(logs, began - timedelta(seconds=AROUND_S), ended)
    return [f"{group} from {began.isoformat()} on:", *asked[:LINES_MAX], *refused[:LINES_MAX], *told[:LINES_MAX]]
