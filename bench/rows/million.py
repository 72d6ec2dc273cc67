"""A million committed offsets: the time to write them, the memory they take, and a cold start with them."""

import time

from bench import generator
from bench.compare import KAFKA, Target
from bench.errors import RunFailed
from bench.lab import Lab, Own
from bench.row import Measured, Row
from bench.sides import Cluster, Side

GROUPS, PARTITIONS = 50_000, 20
CHECKED_GROUPS = 250
CONNECTIONS_HELD, GROUPS_OF_TEN = 1_000, 200
START_TIMEOUT_S = 180
REST_S = 40
"""Between filling and killing: a cluster that crashes has usually run for a while, on both sides."""
MIB, KIB = 1024 * 1024, 1024
_STATE = {"prefix": "million", "groups": GROUPS, "partitions": PARTITIONS}


def fill(cluster: Cluster) -> float:
    """Seconds until all offsets are committed."""
    return float(generator.run("fill", bootstrap=cluster.bootstrap, **_STATE)["seconds"])


def cold_start(side: Side, lab: Lab) -> Measured:
    assert isinstance(side, Cluster)
    filled_s = fill(side)
    time.sleep(REST_S)
    for node in range(side.nodes):
        side.kill(node)
    began_s = time.monotonic()
    for node in range(side.nodes):
        side.revive(node, wait=False)
    while True:
        try:
            generator.run("check", bootstrap=side.bootstrap, every=GROUPS // CHECKED_GROUPS, **_STATE)
            break
        except RunFailed as error:
            if time.monotonic() > began_s + START_TIMEOUT_S:
                raise RunFailed(f"not all offsets are back after {START_TIMEOUT_S} s: {error}") from None
    return {"to the last group's offsets": [time.monotonic() - began_s], "fill": [filled_s]}


def memory(side: Side, lab: Lab) -> Measured:
    assert isinstance(side, Cluster)
    empty = sum(side.held_bytes())
    fill(side)
    with_offsets = sum(side.held_bytes())
    generator.run("members", bootstrap=side.bootstrap, prefix="tens", groups=GROUPS_OF_TEN, count=10)
    with_members = sum(side.held_bytes())
    held = generator.start("hold", bootstrap=side.bootstrap, count=CONNECTIONS_HELD)
    with_connections = sum(side.held_bytes())
    generator.stop(held)
    return {
        "empty": [empty / side.nodes / MIB],
        "in all with a million offsets": [with_offsets / side.nodes / MIB],
        "a million offsets": [(with_offsets - empty) / side.nodes / MIB],
        "a group of ten": [(with_members - with_offsets) / GROUPS_OF_TEN / KIB],
        "a connection": [(with_connections - with_members) / CONNECTIONS_HELD / KIB],
    }


ROWS = (
    Row(
        name="cold_start",
        title="Cold start with a million offsets",
        how=f"{GROUPS:,} groups with {PARTITIONS} offsets; {REST_S} s later all are killed and started; the clock "
        f"stops when OffsetFetch of {CHECKED_GROUPS} groups of all partitions is right.",
        units={"to the last group's offsets": "s", "fill": "s"},
        measure=cold_start,
        targets=(Target(figure="to the last group's offsets", at_most=0.2, of_side=KAFKA),),
        runs=1,
        own=Own(warm=False),
    ),
    Row(
        name="memory",
        title="What state takes in memory",
        how="RSS of Muster, live heap after a full collection of Kafka (`-Xms1g` hides the rest). A replica's mean; "
        "groups and connections summed over the three.",
        units={
            "empty": "MiB a replica",
            "in all with a million offsets": "MiB a replica",
            "a million offsets": "MiB a replica",
            "a group of ten": "KiB in all",
            "a connection": "KiB in all",
        },
        measure=memory,
        targets=(Target(figure="in all with a million offsets", at_most=1, of_side=KAFKA),),
        runs=1,
        own=Own(warm=False),
    ),
)
