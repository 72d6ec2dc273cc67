"""How long a follower that is far behind takes to catch up, over a link with 1.5 times the rate of concurrent writes.

The entries that it lacks at first are in its leader's segments. What is written while it fetches must still be there
when it has finished: otherwise it begins again, for ever. What the row does not measure is a link without a bound.
"""

from muster_coordinator.limits import WAL_BYTES_MAX

from bench.compare import MUSTER, Target
from bench.far_behind import TOPIC, catch_up
from bench.lab import Lab, Own
from bench.muster_side import Muster
from bench.row import Measured, Row
from bench.sides import Side

BEHIND_BYTES = 1 << 30
WRITE_RATE, LINK_RATE = 5_000_000, 7_500_000
LEVEL_ENTRIES = 1_000
WITHIN_S = 1_200
"""The run is given up after this time; the target is lower."""


def measure(side: Side, lab: Lab) -> Measured:
    assert isinstance(side, Muster)
    caught = catch_up(
        side.cluster,
        missed_bytes=BEHIND_BYTES,
        write_rate=WRITE_RATE,
        link_rate=LINK_RATE,
        level_entries=LEVEL_ENTRIES,
        within_s=WITHIN_S,
        say=lab.say,
    )
    return {
        "until it is level": [caught.seconds],
        "fetched of lacked": [caught.of_lacked],
        "written meanwhile": [caught.written_bytes / caught.seconds / 1e6],
        "transfers put in place": [caught.installed],
    }


ROWS = (
    Row(
        name="snapshot_install",
        title="A follower 1 GiB behind",
        how="One of three replicas is down while 1 GiB is written to a partition, then reaches its peers over a link "
        f"of {LINK_RATE / 1e6} MB/s while {WRITE_RATE / 1e6:.0f} MB/s are written. Level: all but {LEVEL_ENTRIES:,} "
        "entries acknowledged, and so for some seconds; fetched is all that went over the link to it, lacked what was "
        "written until then and it did not have. The WAL's bound is production's default (1 GiB).",
        units={
            "until it is level": "s",
            "fetched of lacked": "x",
            "written meanwhile": "MB/s",
            "transfers put in place": "",
        },
        measure=measure,
        sides=(MUSTER,),
        targets=(
            Target(figure="until it is level", at_most=600, worst=True),
            Target(figure="fetched of lacked", at_most=1.2, worst=True),
        ),
        runs=1,
        own=Own(partitions=3, topics={TOPIC: 1}, warm=False, settings={"muster.wal.max.bytes": str(WAL_BYTES_MAX)}),
    ),
)
