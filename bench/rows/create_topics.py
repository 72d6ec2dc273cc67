"""One request creates many partitions while a group commits, which must not be delayed.

Problem: a replica that creates folders in the turn that applies the topic does not answer for as long as the disk
takes, and a leader that does not answer is replaced. So the figures are the terms of the Raft groups that existed
before, and the longest turn of any replica.
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
"""Long enough to see an election that an unresponsive leader caused."""


def _terms(side: Muster) -> dict[int, int]:
    """Raft group -> the highest term that any replica knows."""
    terms: dict[int, int] = {}
    for node in range(side.nodes):
        for group in side.cluster.admin(node, "/v1/partitions")[1]["partitions"]:
            terms[group["group"]] = max(terms.get(group["group"], 0), group["term"])
    return terms


def _led(side: Muster) -> int:
    """From the short page: scraping a hundred pages of metrics per second would be a load of its own."""
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
