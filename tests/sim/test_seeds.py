"""Whole clusters through storms of faults: no promise is broken in any of MUSTER_SIM_SEEDS seeds (default 300)."""

import os
import sys

import pytest

from tests.sim.batch import Tally, run_all
from tests.sim.plan import KINDS

SEEDS = int(os.environ.get("MUSTER_SIM_SEEDS", "300"))
ENOUGH = 200
"""With this many seeds, what is not reached is out of the generator's reach."""
REACHED = (
    "a bit of a WAL flipped",
    "a bit of a checkpoint flipped",
    "a bit of a segment flipped",
    "a broker joined",
    "a checkpoint was transferred",
    "a compacted log was cleaned",
    "a coordinator died with a decision and no marker",
    "a coordinator died with all markers and no completion",
    "a coordinator died with an epoch that nobody heard of",
    "a coordinator died with some of the markers",
    "a damaged segment was fetched again",
    "a disk had room again",
    "a disk was lost",
    "a full disk was noticed",
    "a group grew to five replicas",
    "a drain was undone",
    "a leader changed",
    "a link was gray",
    "a lost disk was mounted again",
    "a log was cleaned below an open transaction",
    "a lost replica was replaced",
    "a new folder was replaced in its turn",
    "a partition was moved",
    "a producer was fenced",
    "a replica replayed its WAL",
    "a replica was drained",
    "a segment was synced between flushes",
    "a send was refused",
    "a throttle was changed",
    "a topic was created again",
    "a topic was deleted",
    "a transaction ran out of its time",
    "a voter was made whole",
    "a voter was suspended",
    "a zombie went on",
    "an I/O thread was last for a while",
    "an entry was cut",
    "an offsets log was cleaned",
    "an older checkpoint stood in",
    "an unstable offset was told",
    "cleaning took records",
    "commit answered 22",
    "commit answered 25",
    "commit answered 27",
    "commit answered 82",
    "commit under an old generation",
    "cut at a boundary",
    "ended by a failing disk",
    "fenced",
    "join of an unknown member",
    "join with unknown outcome",
    "leadership was taken back",
    "left",
    "partitions were added",
    "retention took records",
    "static restart",
    "the balancer moved a partition",
    "the balancer was paused",
    "the replication factor grew",
    "told it is no member",
    "two segments",
    "two WAL files",
    "vanished",
)

pytestmark = [pytest.mark.sim, pytest.mark.seeds, pytest.mark.timeout(3_600)]


@pytest.fixture(scope="module")
def tally() -> Tally:
    found = run_all(range(SEEDS))
    sys.stdout.write("\n".join(found.lines()) + "\n")
    return found


def test_no_seed_breaks_a_promise(tally: Tally) -> None:
    assert not tally.failed, "\n" + "\n".join(result.line() for result in tally.failed)


def test_the_clusters_did_some_work(tally: Tally) -> None:
    assert tally.seeds == SEEDS
    assert tally.operations > 300 * SEEDS
    assert tally.acknowledged > 50 * SEEDS


@pytest.mark.skipif(SEEDS < ENOUGH, reason=f"needs {ENOUGH} seeds")
def test_every_kind_of_fault_and_every_corner_was_reached(tally: Tally) -> None:
    wanted = {*REACHED, *(f"fault {kind}" for kind in KINDS)}
    assert not wanted - tally.marks.keys(), f"never reached: {sorted(wanted - tally.marks.keys())}"
