"""Hostile and broken clients cost bounded memory, get typed errors or a closed connection; honest ones notice nothing.

Faults F28 and F30-F33: slow readers, huge and malformed frames, floods of requests, of group ids, of metadata.
"""

import asyncio
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import MusterCluster, wait_until
from tests.integration.test_many_raft_groups import create_topic
from tests.raw_client import RawClient
from tests.raw_group import COMMIT, FIND, HEARTBEAT, NONE, RawMember, commit, find_coordinator

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

RSS_GROWTH_MIB_MAX = 64
HEARTBEAT_S = 0.2
HEARTBEAT_LATE_S = 3.0
"""Half of the smallest session timeout: a heartbeat this late would be missed by an impatient client."""


def rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


class Honest(threading.Thread):
    """A lone member that heartbeats all the while and notes the slowest answer."""

    def __init__(self, cluster: MusterCluster) -> None:
        super().__init__(name="honest", daemon=True)
        self.member = RawMember(cluster.bootstrap, "honest", session_ms=6_000)
        self.member.join()
        self.member.sync({self.member.member: b"x"})
        self.broker, _, _ = find_coordinator(cluster.bootstrap, "honest")
        self.ended = threading.Event()
        self.slowest_s = 0.0
        self.codes: set[int] = set()
        self.beats = 0

    def run(self) -> None:
        while not self.ended.wait(HEARTBEAT_S):
            begun = time.monotonic()
            self.codes.add(self.member.heartbeat())
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
            self.beats += 1


@pytest.fixture(scope="module")
def victim(cluster: MusterCluster) -> Iterator[Honest]:
    """The honest member; its coordinator is the replica that everything below attacks."""
    create_topic(cluster, "bad")
    honest = Honest(cluster)
    honest.start()
    yield honest
    honest.ended.set()
    honest.join()
    honest.member.drop_connection()


@pytest.fixture
def bounded(cluster: MusterCluster, victim: Honest) -> Iterator[Honest]:
    """Around each attack: memory stays bounded, the honest member misses nothing."""
    before = rss_mib(cluster.pid(victim.broker))
    victim.slowest_s, beats = 0.0, victim.beats
    yield victim
    wait_until("heartbeats after the attack", lambda: not victim.is_alive() or victim.beats >= beats + 2, 10)
    assert victim.is_alive(), "the honest member lost its connection"
    assert victim.codes <= {NONE}, "the honest member was told something else than NONE"
    assert victim.slowest_s < HEARTBEAT_LATE_S
    grown = rss_mib(cluster.pid(victim.broker)) - before
    assert grown <= RSS_GROWTH_MIB_MAX, f"RSS grew by {grown:.0f} MiB"


def connect(cluster: MusterCluster, honest: Honest) -> socket.socket:
    return socket.create_connection(("127.0.0.1", cluster.client_port(honest.broker)), timeout=20)


def closed(connection: socket.socket, seconds: float = 15) -> bool:
    connection.settimeout(seconds)
    try:
        while connection.recv(65_536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("size", [2**31 - 1, 100 << 20, 0, -1, -(2**31)])
def test_frame_of_an_impossible_size_closes_at_its_first_four_bytes(
    cluster: MusterCluster, bounded: Honest, size: int
) -> None:
    with connect(cluster, bounded) as connection:
        connection.sendall(struct.pack(">i", size) + b"\x00" * 64)
        assert closed(connection)


def test_malformed_frames_are_refused(cluster: MusterCluster, bounded: Honest) -> None:
    """Random bytes behind every real header: lengths, varints, tags, UTF-8, counts that promise too much."""
    rng = random.Random(20)
    keys = (0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 22, 23, 32, 37, 42, 44, 47, 60, 75)
    for _ in range(1500):
        header = struct.pack(">hhih", rng.choice(keys), rng.randrange(0, 14), 1, -1)
        body = bytes(rng.choice((rng.randrange(256), 0, 0xFF, 0x7F)) for _ in range(rng.randrange(0, 200)))
        with connect(cluster, bounded) as connection:
            try:
                connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
                connection.shutdown(socket.SHUT_WR)
                assert closed(connection, 10), (header, body)
            except ConnectionError:
                continue


def test_small_frame_that_promises_a_huge_array_costs_nothing(cluster: MusterCluster, bounded: Honest) -> None:
    for count in (2**31 - 1, 1 << 24, 1 << 20):
        body = struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", count)
        with connect(cluster, bounded) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            assert closed(connection)


def test_reader_that_never_reads_is_cut_off(cluster: MusterCluster, bounded: Honest) -> None:
    with connect(cluster, bounded) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(2)
        body = struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", -1)
        frame = struct.pack(">i", len(body)) + body
        sent = 0
        try:
            while sent < 2_000_000:
                connection.sendall(frame * 1_000)
                sent += 1_000
        except (TimeoutError, ConnectionError):
            pass
        assert sent < 2_000_000, "the server reads on although nobody takes its answers"


def test_writer_of_one_byte_at_a_time_is_served_and_holds_nobody_up(cluster: MusterCluster, bounded: Honest) -> None:
    body = struct.pack(">hhih", 18, 0, 7, -1)
    with connect(cluster, bounded) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in struct.pack(">i", len(body)) + body:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)
        answer = connection.recv(65_536)
    assert struct.unpack(">i", answer[4:8]) == (7,)


def test_ten_thousand_pipelined_requests_are_answered_in_order(cluster: MusterCluster, bounded: Honest) -> None:
    count = 10_000
    with connect(cluster, bounded) as connection:

        def write() -> None:
            for n in range(count):
                body = struct.pack(">hhih", 18, 0, n, -1)
                connection.sendall(struct.pack(">i", len(body)) + body)

        writer = threading.Thread(target=write)
        writer.start()
        stream = connection.makefile("rb")
        for n in range(count):
            size = struct.unpack(">i", stream.read(4))[0]
            frame = stream.read(size)
            assert struct.unpack(">i", frame[:4])[0] == n
        writer.join()


def test_a_hundred_thousand_group_ids_asked_for(cluster: MusterCluster, bounded: Honest) -> None:
    """Heartbeats for groups that do not exist leave nothing behind; each is answered 25 or 16."""
    with connect(cluster, bounded) as connection:
        stream = connection.makefile("rb")
        for start in range(0, 100_000, 100):
            frames = b""
            for n in range(start, start + 100):
                name = f"ghost-{n}".encode()
                body = struct.pack(">hhih", HEARTBEAT, 0, n, -1) + struct.pack(">h", len(name)) + name
                body += struct.pack(">ih", 1, 1) + b"m"
                frames += struct.pack(">i", len(body)) + body
            connection.sendall(frames)
            for n in range(start, start + 100):
                size = struct.unpack(">i", stream.read(4))[0]
                answer = stream.read(size)
                assert struct.unpack(">ih", answer) in ((n, 25), (n, 16))


def test_metadata_of_a_mebibyte_is_refused_alone(cluster: MusterCluster, bounded: Honest) -> None:
    """12 for the large partition in a commit; a JoinGroup with a MiB of protocol metadata is served."""
    _, host, port = find_coordinator(cluster.bootstrap, "large")
    with RawClient(host, port) as client:
        assert commit(client, "large", "bad", {0: 1}, metadata="m" * 30_000) == {0: 12}
        assert commit(client, "large", "bad", {0: 1}, metadata="m" * 4_096) == {0: NONE}
    big = RawMember(cluster.bootstrap, "large-join", protocols=(("default", b"x" * (1 << 20)),))
    assert int(big.join().error_code) == NONE
    assert len(big.members[big.member]) == 1 << 20
    big.leave()
    big.drop_connection()
    over = RawMember(cluster.bootstrap, "too-large", protocols=(("default", b"x" * (9 << 20)),))
    assert int(over.join().error_code) == 81
    over.drop_connection()


def test_unknown_api_and_version_close_the_connection(cluster: MusterCluster, bounded: Honest) -> None:
    for key, version in ((999, 0), (FIND, 99), (COMMIT, 0), (0, 2), (-1, -1)):
        body = struct.pack(">hhih", key, version, 1, -1)
        with connect(cluster, bounded) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            assert closed(connection)


@pytest.mark.quiet
def test_three_thousand_connections_are_back_within_five_seconds_of_a_kill(tmp_path: Path) -> None:
    """All from one address, as behind one NAT; each finds the coordinator and commits again."""
    connections = 3_000
    with MusterCluster(tmp_path / "many") as cluster:
        create_topic(cluster, "bad")
        broker, _, _ = find_coordinator(cluster.bootstrap, "herd")
        asyncio.run(Herd(cluster, connections).run(broker))


class Herd:
    """Many connections of one event loop, each a simple consumer of its own group on the partition of "herd"."""

    def __init__(self, cluster: MusterCluster, size: int) -> None:
        self.cluster, self.size = cluster, size
        self.done = 0

    async def run(self, broker: int) -> None:
        readers = [await self.open(broker) for _ in range(self.size)]
        assert len(readers) == self.size
        self.cluster.kill(broker)
        killed = time.monotonic()
        others = [n for n in range(self.cluster.replicas) if n != broker]
        await asyncio.gather(*(self.come_back(n, others) for n in range(self.size)))
        took = time.monotonic() - killed
        for _, writer in readers:
            writer.close()
        assert took <= 5, f"the last of {self.size} was back after {took:.1f} s"

    async def open(self, broker: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        port = self.cluster.client_port(broker)
        streams = await asyncio.open_connection("127.0.0.1", port)
        await self.find(streams, "herd")
        return streams

    async def find(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], group: str) -> tuple[int, int]:
        """(error, port) of FindCoordinator v0."""
        reader, writer = streams
        name = group.encode()
        body = struct.pack(">hhih", FIND, 0, 1, -1) + struct.pack(">h", len(name)) + name
        writer.write(struct.pack(">i", len(body)) + body)
        size = struct.unpack(">i", await reader.readexactly(4))[0]
        answer = await reader.readexactly(size)
        error, _, host = struct.unpack(">hih", answer[4:12])
        return error, struct.unpack(">i", answer[12 + host : 16 + host])[0]

    async def come_back(self, number: int, others: list[int]) -> None:
        """Until some coordinator answers a heartbeat of an unknown member with 25: it serves the group again."""
        while True:
            try:
                via = await asyncio.open_connection("127.0.0.1", self.cluster.client_port(others[number % 2]))
                error, port = await self.find(via, "herd")
                via[1].close()
                if error == NONE:
                    streams = await asyncio.open_connection("127.0.0.1", port)
                    code = await self.heartbeat(streams)
                    streams[1].close()
                    if code == 25:
                        return
            except (OSError, asyncio.IncompleteReadError):
                pass
            await asyncio.sleep(0.1)

    async def heartbeat(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> int:
        reader, writer = streams
        body = (
            struct.pack(">hhih", HEARTBEAT, 0, 1, -1) + struct.pack(">h", 4) + b"herd" + struct.pack(">ih", 1, 1) + b"m"
        )
        writer.write(struct.pack(">i", len(body)) + body)
        size = struct.unpack(">i", await reader.readexactly(4))[0]
        answer = await reader.readexactly(size)
        return int(struct.unpack(">h", answer[4:6])[0])
