"""Many partitions made by one request while a group commits: nobody else may notice.

Whoever makes folders in the turn that applies the topic is silent for as long as the disk takes; a silent leader is
deposed. So what counts are terms of the Raft groups that were there before, and the longest turn of any replica.
"""

import time

from bench import processes
from bench.compare import MUSTER, Target
from bench.failover import TOPIC
from bench.lab import Lab, Own
from bench.muster_side import Muster
from bench.row import Measured, Row
from bench.rows.longest_turn import LOOK_BACK_S
from bench.rows.outage import committing
from bench.sides import Side
from tests.cluster import wait_until

PARTITIONS = 1_900
OFFSETS_PARTITIONS = 10
LEADERS_TIMEOUT_S = 120
REST_S = 2
"""Long enough for an election that a silent leader caused to show."""


def _terms(side: Muster) -> dict[int, int]:
    """Raft group -> the highest term that any replica knows."""
    terms: dict[int, int] = {}
    for node in range(side.nodes):
        for group in side.cluster.admin(node, "/v1/partitions")[1]["partitions"]:
            terms[group["group"]] = max(terms.get(group["group"], 0), group["term"])
    return terms


def _led(side: Muster) -> int:
    """By the short page: a hundred pages of metrics a second would be a load of their own."""
    return sum(side.cluster.status(node)["leaderships"] for node in range(side.nodes))


def measure(side: Side, lab: Lab) -> Measured:
    assert isinstance(side, Muster)
    time.sleep(max(0.0, LOOK_BACK_S - min(processes.age_s(pid) for pid in side.pids())))
    before = _terms(side)
    with committing(side) as committer:
        time.sleep(REST_S)
        began_s = time.monotonic()
        side.create_topics({"many": PARTITIONS})
        wait_until("every partition has a leader", lambda: _led(side) >= len(before) + PARTITIONS, LEADERS_TIMEOUT_S)
        led_s = time.monotonic() - began_s
        time.sleep(REST_S)
        moments = [good for _, good in committer.good_s if good >= began_s]
    after = _terms(side)
    turns = [side.metric(node, "muster_loop_longest_turn_seconds") for node in range(side.nodes)]
    return {
        "leaderships lost": [sum(1 for group, term in before.items() if after[group] > term)],
        "longest turn": [max(turns) * 1_000],
        "longest gap between commits": [
            max(later - earlier for earlier, later in zip([began_s, *moments], moments, strict=False))
        ],
        "until all are led": [led_s],
    }


ROWS = (
    Row(
        name="create_topics",
        title=f"A topic of {PARTITIONS:,} partitions is created",
        how=f"By one request to three replicas with {OFFSETS_PARTITIONS} offsets partitions while a consumer commits. "
        "Lost: Raft groups that were there before and have another term after; the turn is the worst of all replicas.",
        units={
            "leaderships lost": "",
            "longest turn": "ms",
            "longest gap between commits": "s",
            "until all are led": "s",
        },
        measure=measure,
        sides=(MUSTER,),
        targets=(
            Target(figure="leaderships lost", at_most=0, worst=True),
            Target(figure="longest turn", at_most=50, worst=True),
        ),
        runs=1,
        own=Own(partitions=OFFSETS_PARTITIONS, topics={TOPIC: 1}, warm=False),
    ),
)
