"""A coordinator dies, freezes or is drained: how long a consumer of librdkafka with default settings cannot commit."""

import contextlib
import itertools
import signal
import time
from collections.abc import Callable, Iterator

from bench.compare import KAFKA, Target
from bench.errors import RunFailed
from bench.failover import GROUP, SETTLE_S, TOPIC, Committer
from bench.lab import Lab
from bench.row import Measured, Own, Row
from bench.sides import Cluster, Side
from tests.cluster import wait_until

TIMES = 5
COMMIT_TIMEOUT_S = 90
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


def _first_good(committer: Committer, moment_s: float) -> float:
    try:
        good = wait_until("a good commit", lambda: committer.first_after(moment_s), COMMIT_TIMEOUT_S, 0.01)
    except AssertionError as error:
        raise RunFailed(str(error)) from None
    return float(good) - moment_s


def outage(
    strike: Callable[[Cluster, int], None], mend: Callable[[Cluster, int], None]
) -> Callable[[Side, Lab], Measured]:
    def measure(side: Side, lab: Lab) -> Measured:
        assert isinstance(side, Cluster)
        samples = []
        with committing(side) as committer:
            for _ in range(TIMES):
                time.sleep(SETTLE_S)
                node = side.coordinator(GROUP)
                moment_s = time.monotonic()
                strike(side, node)
                samples.append(_first_good(committer, moment_s))
                mend(side, node)
        return {"first good commit": samples}

    return measure


def _await_another(cluster: Cluster, node: int) -> None:
    wait_until("another coordinator", lambda: cluster.coordinator(GROUP) != node, COMMIT_TIMEOUT_S)


def longest_gap(side: Side, lab: Lab) -> Measured:
    """A drain ends no commit by itself, so what counts is the longest time without a good one around it."""
    assert isinstance(side, Cluster)
    gaps = []
    with committing(side) as committer:
        for _ in range(TIMES):
            time.sleep(SETTLE_S)
            node = side.coordinator(GROUP)
            began_s = time.monotonic()
            side.drain(node)
            _await_another(side, node)
            _first_good(committer, time.monotonic())
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
        measure=outage(lambda cluster, node: cluster.kill(node), lambda cluster, node: cluster.revive(node)),
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
        how="As above, with SIGSTOP, so that no connection closes; it goes on after the first good commit elsewhere.",
        units={"first good commit": "s"},
        measure=outage(
            lambda cluster, node: cluster.signal(node, signal.SIGSTOP),
            lambda cluster, node: cluster.signal(node, signal.SIGCONT),
        ),
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
