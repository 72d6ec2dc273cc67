"""Five pipelined requests for 60,000 group ids each, to each of three real replicas: their memory stays bounded.

Before there was a bound the coordinator of these names took 400 MB for them (docs/adr/0036).
"""

import socket
import struct
import threading

import pytest

from tests.cluster import MusterCluster, wait_until
from tests.faults.soak import resident_bytes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

DESCRIBE_GROUPS = 15
NAMES, PIPELINED = 60_000, 5
GROWTH_BYTES_MAX = 256 << 20
"""The bound of all held requests; measured: 60 MiB."""


def describe(correlation: int) -> bytes:
    """Version 2, of empty names: 2 bytes each."""
    head = struct.pack(">hhihi", DESCRIBE_GROUPS, 2, correlation, -1, NAMES)
    return struct.pack(">i", len(head) + 2 * NAMES) + head + bytes(2 * NAMES)


def exactly(one: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = one.recv(min(1 << 20, size - len(data)))
        assert part, "the replica has hung up"
        data += part
    return bytes(data)


def test_what_a_client_has_in_the_making_is_bounded(cluster: MusterCluster) -> None:
    pids = [cluster.pid(replica) for replica in range(3)]
    before = [resident_bytes(pid) for pid in pids]
    most, over = list(before), threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            most[:] = map(max, most, map(resident_bytes, pids))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for replica in range(3):
            with socket.create_connection(("127.0.0.1", cluster.client_port(replica)), 60) as one:
                sender = threading.Thread(target=one.sendall, args=(b"".join(map(describe, range(PIPELINED))),))
                sender.start()
                for number in range(PIPELINED):
                    size, correlation = struct.unpack(">ii", exactly(one, 8))
                    assert correlation == number
                    exactly(one, size - 4)
                sender.join()
    finally:
        over.set()
        watcher.join()
    assert [cluster.pid(replica) for replica in range(3)] == pids
    for replica in range(3):
        wait_until(f"replica {replica} is ready", lambda at=replica: cluster.probe(at, "/readyz") == 200, 20)
        held = [x for x in cluster.metrics(replica).splitlines() if x.startswith("muster_requests_held_bytes ")]
        assert [float(line.split()[1]) for line in held] == [0.0]
    for replica in range(3):
        grown = most[replica] - before[replica]
        assert grown <= GROWTH_BYTES_MAX, f"replica {replica} took {grown / 2**20:.0f} MiB more"
