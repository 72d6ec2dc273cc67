"""A coordinator dies, freezes or is drained: how long a consumer of librdkafka with default settings cannot commit."""

import contextlib
import itertools
import signal
import time
from collections.abc import Iterator

from bench.compare import KAFKA, Target
from bench.errors import RunFailed
from bench.failover import GROUP, SETTLE_S, TOPIC, Committer
from bench.lab import Lab, Own
from bench.row import Measured, Row
from bench.sides import Cluster, Side
from tests.cluster import wait_until
from tests.raw_client import Disconnected, RawClient, request
from tests.raw_group import FETCH, find_coordinator

TIMES, SILENCES = 5, 2
COMMIT_TIMEOUT_S = 90
SILENCE_TIMEOUT_S = 300
"""librdkafka gives up a frozen coordinator after 60 s, connects to it again, and asks the others last."""
ASK_TIMEOUT_S = 5
OWN = Own(topics={TOPIC: 1}, warm=False)


@contextlib.contextmanager
def committing(cluster: Cluster) -> Iterator[Committer]:
    committer = Committer(cluster.bootstrap)
    committer.start()
    try:
        wait_until("commits flow", lambda: committer.good_s, COMMIT_TIMEOUT_S)
        yield committer
    finally:
        committer.ended.set()
        committer.join(COMMIT_TIMEOUT_S)


def first_good(committer: Committer, moment_s: float, timeout_s: float = COMMIT_TIMEOUT_S) -> float:
    try:
        good = wait_until("a good commit", lambda: committer.first_after(moment_s), timeout_s, 0.01)
    except AssertionError as error:
        raise RunFailed(str(error)) from None
    return float(good) - moment_s


def kills(side: Side, lab: Lab) -> Measured:
    assert isinstance(side, Cluster)
    samples = []
    with committing(side) as committer:
        for _ in range(TIMES):
            time.sleep(SETTLE_S)
            node = side.coordinator(GROUP)
            moment_s = time.monotonic()
            side.kill(node)
            samples.append(first_good(committer, moment_s))
            side.revive(node)
    return {"first good commit": samples}


def silences(side: Side, lab: Lab) -> Measured:
    """librdkafka waits for the frozen coordinator until its own time-out; another client, which asks anew, shows when
    the servers were ready."""
    assert isinstance(side, Cluster)
    served, committed = [], []
    with committing(side) as committer:
        for _ in range(SILENCES):
            time.sleep(SETTLE_S)
            node = side.coordinator(GROUP)
            moment_s = time.monotonic()
            side.signal(node, signal.SIGSTOP)
            try:
                _await_served(side, node)
                served.append(time.monotonic() - moment_s)
                committed.append(first_good(committer, moment_s, SILENCE_TIMEOUT_S))
            finally:
                side.signal(node, signal.SIGCONT)
    return {"served elsewhere": served, "first good commit": committed}


def _await_served(cluster: Cluster, silent: int) -> None:
    """Wait until a running replica names another coordinator, and that one answers OffsetFetch."""
    addresses = [address for node, address in enumerate(cluster.bootstrap.split(",")) if node != silent]

    def served() -> bool:
        node, host, port = find_coordinator(",".join(addresses), GROUP, COMMIT_TIMEOUT_S)
        if node == silent:
            return False
        asked = request(
            FETCH, 7, group_id=GROUP, topics=[{"name": TOPIC, "partition_indexes": [0]}], require_stable=False
        )
        try:
            with RawClient(host, port, timeout_s=ASK_TIMEOUT_S) as client:
                return int(client.call(asked).error_code) == 0
        except Disconnected:
            return False

    wait_until("another coordinator that serves", served, COMMIT_TIMEOUT_S, 0.02)


def _await_another(cluster: Cluster, node: int) -> None:
    wait_until("another coordinator", lambda: cluster.coordinator(GROUP) != node, COMMIT_TIMEOUT_S)


def longest_gap(side: Side, lab: Lab) -> Measured:
    """A drain ends no commit by itself, so the figure is the longest time without a successful commit around it."""
    assert isinstance(side, Cluster)
    gaps = []
    with committing(side) as committer:
        for _ in range(TIMES):
            time.sleep(SETTLE_S)
            node = side.coordinator(GROUP)
            began_s = time.monotonic()
            side.drain(node)
            _await_another(side, node)
            first_good(committer, time.monotonic())
            side.back_on_duty(node)
            ended_s = time.monotonic()
            moments = [began_s, *(good for _, good in committer.good_s if began_s < good < ended_s)]
            gaps.append(max(after - before for before, after in itertools.pairwise(moments)))
    return {"longest gap": gaps}


ROWS = (
    Row(
        name="failover",
        title="SIGKILL of the coordinator",
        how=f"{TIMES} kills in one cluster life; from the signal to librdkafka's first good commit (default settings).",
        units={"first good commit": "s"},
        measure=kills,
        targets=(
            Target(figure="first good commit", at_most=0.1, of_side=KAFKA),
            Target(figure="first good commit", at_most=1.2),
            Target(figure="first good commit", at_most=3, worst=True),
        ),
        runs=1,
        own=OWN,
    ),
    Row(
        name="silence",
        title="The coordinator falls silent",
        how=f"{SILENCES} times SIGSTOP, so that no connection closes. Served elsewhere: another replica is named as "
        "coordinator and answers OffsetFetch. librdkafka asks the frozen one until its own 60 s are over, on both "
        "sides. It goes on after the first good commit.",
        units={"served elsewhere": "s", "first good commit": "s"},
        measure=silences,
        runs=1,
        own=OWN,
    ),
    Row(
        name="drain",
        title="Planned leave of the coordinator",
        how="`POST /v1/drain` of Muster, SIGTERM (controlled shutdown) of Kafka: longest time between good commits.",
        units={"longest gap": "s"},
        measure=longest_gap,
        runs=1,
        own=OWN,
    ),
)
