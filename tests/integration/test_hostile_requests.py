"""The same hostile requests as in `tests/fuzz`, through the sockets of three real replicas: none ends.

Each frame goes to every replica, as a client that looks for its coordinator sends it, so a frame that ended its leader
would meet the next one. The processes, their metrics and an honest member tell.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.cluster import MusterCluster, wait_until
from tests.fuzz.campaign import CORPUS
from tests.fuzz.sane import TOPICS, Known
from tests.fuzz.wires import Wires, frame
from tests.integration.test_many_raft_groups import create_topic
from tests.raw_group import NONE, RETRIABLE, RawMember

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

INPUTS = 7_200
SEATS = 8
DECODED_LEAST, LOGGED_LEAST = 0.5, 0.1
ENOUGH = 150
"""Frames of each API at least, of which its share is judged: as many turns go to an API of few versions."""
TAKES_LONG = frozenset((Api.CREATE_TOPICS, Api.DELETE_TOPICS, Api.CREATE_PARTITIONS))


def served(cluster: MusterCluster) -> Counter[str]:
    """Requests handed to a handler, by API, on all replicas."""
    found: Counter[str] = Counter()
    for replica in range(3):
        for line in cluster.metrics(replica).splitlines():
            if line.startswith("muster_requests_total{"):
                found[line.split('"')[1]] += int(float(line.rsplit(" ", 1)[1]))
    return found


def settled(cluster: MusterCluster, seconds: float = 60) -> Counter[str]:
    """`served`, once a look finds nothing new: what was sent last is on its way until then. A look that takes too long
    is none: on an overloaded machine a replica may have much before it."""
    seen: list[Counter[str]] = [Counter()]

    def still() -> bool:
        try:
            seen.append(served(cluster))
        except TimeoutError:
            return False
        return seen[-1] == seen[-2]

    wait_until("all requests are handled", still, seconds, every=0.5)
    return seen[-1]


@contextlib.contextmanager
def wires_to(cluster: MusterCluster) -> Iterator[list[Wires]]:
    """Closed however it ends, so that a failure is told without what it leaves open."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(Wires(cluster.client_port(replica)))) for replica in range(3)]


def logged(cluster: MusterCluster) -> int:
    """Entries of all Raft groups."""
    lines = cluster.metrics(0).splitlines()
    return sum(
        int(float(line.rsplit(" ", 1)[1])) for line in lines if line.startswith("muster_partition_commit_index{")
    )


def notices(cluster: MusterCluster, replica: int) -> list[str]:
    return [line for line in cluster.metrics(replica).splitlines() if line.startswith("muster_notices_total{")]


def assert_untouched(honest: RawMember) -> None:
    """It is in its generation as before, wherever its coordinator is by now: on an overloaded machine a leader may
    stand for longer than an election takes."""

    def told() -> list[int]:
        code = honest.heartbeat()
        if code in RETRIABLE:
            honest.drop_connection()
            return []
        return [code]

    assert wait_until("its coordinator answers", told, 20) == [NONE]


def test_three_replicas_survive_them(cluster: MusterCluster) -> None:
    for number in range(TOPICS):
        create_topic(cluster, f"t{number}")
    pids = [cluster.pid(replica) for replica in range(3)]
    honest = RawMember(cluster.bootstrap, "honest", session_ms=30_000)
    honest.join()
    honest.sync({honest.member: b"x"})
    with wires_to(cluster) as wires:
        for file in sorted(CORPUS.glob("*.hex")):
            for line in file.read_text().splitlines():
                if line and not line.startswith("#"):
                    for wire in wires:
                        wire.send(bytes.fromhex(line), sane=False)
        before, entries = settled(cluster), logged(cluster)
        sent = send_inputs(cluster, honest, wires)
        settled(cluster)
    assert [cluster.pid(replica) for replica in range(3)] == pids
    for replica in range(3):
        wait_until(f"replica {replica} is ready", lambda at=replica: cluster.probe(at, "/readyz") == 200, 20)
        assert notices(cluster, replica) == []
    assert_untouched(honest)
    honest.drop_connection()
    taken = settled(cluster) - before
    assert sent.total() > INPUTS / 2
    for api in VERSIONS:
        name = Api(api).name
        assert sent[name] >= ENOUGH, name
        assert taken[name] >= DECODED_LEAST * sent[name], (name, taken[name], sent[name])
    # Of the three that got a frame, one leads.
    assert logged(cluster) - entries >= LOGGED_LEAST * sent.total() / len(wires)


def send_inputs(cluster: MusterCluster, honest: RawMember, wires: list[Wires]) -> Counter[str]:
    """Frames sent, by API. Now and then somebody new takes a seat in a group, and the honest member is looked after."""
    rand, known = Random(14), Known()
    sent: Counter[str] = Counter()
    for number in range(INPUTS):
        if number % (INPUTS // SEATS) == 0:
            seat = RawMember(cluster.bootstrap, f"seat{number}", protocol_type="consumer", protocols=(("range", b""),))
            seat.join()
            known.seats.append((seat.group, seat.member, seat.generation))
            seat.drop_connection()
            assert_untouched(honest)
        api = rand.choice(sorted(VERSIONS))
        version = rand.randint(VERSIONS[api].min, VERSIONS[api].max)
        if api in TAKES_LONG and rand.random() > 0.5:
            continue
        made = frame(rand, known, api, version)
        if made is None:
            continue
        sent[Api(api).name] += len(wires)
        for wire in wires:
            wire.send(made[0], sane=made[1])
    return sent
