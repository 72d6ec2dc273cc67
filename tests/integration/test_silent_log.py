"""What is never in a replica's log, and a log that nobody reads: a real process, real clients.

Everything that a client may hold secret carries a word of its own, in records, commits, joins, broken requests, wrong
tokens and names that are too long; the log is kept at `debug`, and none of the words may be in it in any spelling.
"""

import base64
import contextlib
import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster import MusterCluster, wait_until
from tests.integration.test_many_raft_groups import create_topic
from tests.raw_client import Disconnected, RawClient
from tests.raw_group import NONE, RawMember

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

SECRETS = ("CANARYKEY", "CANARYVALUE", "CANARYHEADER", "CANARYMETADATA", "CANARYSUBSCRIPTION", "CANARYASSIGNMENT")
TOKENS = ("CANARYTOKEN", "CANARYFRAME")
PIPE_BYTES = 4_096
STOP_SECONDS_MAX = 20


def spellings(word: str) -> set[str]:
    """Plain, hex, and base64 wherever in a text it begins."""
    raw = word.encode()
    shifted = {base64.b64encode(b"\0" * n + raw)[n and 4 : -4].decode() for n in range(3)}
    return {word, raw.hex(), repr(raw)[2:-1], *shifted}


def exchange(cluster: MusterCluster) -> None:
    """Each secret is where it belongs, and was really used."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce("secrets", key=b"CANARYKEY", value=b"CANARYVALUE", headers={"h": b"CANARYHEADER"})
    assert producer.flush(20) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "quiet",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["secrets"])
    record = wait_until("a record", lambda: consumer.poll(0.1), 30)
    assert (record.key(), record.value()) == (b"CANARYKEY", b"CANARYVALUE")
    consumer.commit(offsets=[TopicPartition("secrets", 0, 1, metadata="CANARYMETADATA")], asynchronous=False)
    consumer.close()
    member = RawMember(cluster.bootstrap, "quieter", protocols=(("default", b"CANARYSUBSCRIPTION"),))
    assert int(member.join().error_code) == NONE
    assert int(member.sync({member.member: b"CANARYASSIGNMENT"}).error_code) == NONE
    assert member.assignment == b"CANARYASSIGNMENT"
    member.drop_connection()


def misuse(cluster: MusterCluster) -> None:
    """Wrong tokens, and bytes that are no request."""
    for path in ("/v1/status", "/v1/CANARYTOKEN"):
        asked = urllib.request.Request(
            f"http://127.0.0.1:{cluster.port + 300}{path}", headers={"Authorization": "Bearer CANARYTOKEN"}
        )
        with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(asked, timeout=10):
            pass
        assert refused.value.code == 401
        refused.value.close()
    body = struct.pack(">hhih1sh", 11, 5, 1, 1, b"c", 200) + b"\xffCANARYFRAME" * 20
    for data in (b"CANARYFRAME" * 20, struct.pack(">i", len(body)) + body):
        with contextlib.suppress(Disconnected), RawClient("127.0.0.1", cluster.client_port(0)) as client:
            client.send_bytes(data)
            client.receive_frame()


def test_every_spelling_is_looked_for() -> None:
    for before in (b"", b"a", b"ab", b"abc"):
        found = base64.b64encode(before + b"CANARYKEY" + b"xyz").decode()
        assert any(one in found for one in spellings("CANARYKEY"))


def test_no_key_value_metadata_assignment_or_token_is_in_the_log(tmp_path: Path) -> None:
    settings = {"group.initial.rebalance.delay.ms": "0", "muster.log.level": "debug"}
    with MusterCluster(tmp_path / "c", replicas=1, partitions=2, settings=settings) as cluster:
        create_topic(cluster, "secrets")
        exchange(cluster)
        misuse(cluster)
        real_token = (cluster.folder / "admin-token").read_text().strip()
        file = cluster.folder / "replica-0" / "server.log"
        wait_until("it is written", lambda: "quieter" in file.read_text(), 10)
    text = file.read_text()
    for word in (*SECRETS, *TOKENS, real_token):
        found = [one for one in spellings(word) if one in text]
        assert not found, [line for line in text.splitlines() if found[0] in line]


def test_a_replica_serves_and_stops_while_its_log_is_a_full_pipe_that_nobody_reads(tmp_path: Path) -> None:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with MusterCluster(tmp_path / "c", replicas=1, partitions=2, settings=settings) as cluster:
        create_topic(cluster, "t")
        cluster.kill(0)
        reads, writes = os.pipe()
        fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        config = cluster.folder / "replica-0" / "server.properties"
        command = [sys.executable, "-m", "muster_coordinator.cli.main", "server", "--config", str(config)]
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        replica = subprocess.Popen(
            [*command, "--log-level", "debug"], stderr=writes, stdout=subprocess.DEVNULL, env=buffered
        )
        os.close(writes)
        try:
            cluster.wait_ready(0)
            for _ in range(100):  # a line each
                with RawClient("127.0.0.1", cluster.client_port(0)) as client, contextlib.suppress(Disconnected):
                    client.send_bytes(b"\xff" * 10)
                    client.receive_frame()
            wait_until("the pipe is full", lambda: not _takes_more(reads), 10)
            began = time.monotonic()
            for number in range(5):
                member = RawMember(cluster.bootstrap, f"g{number}")
                assert int(member.join().error_code) == NONE
                assert int(member.sync({member.member: b""}).error_code) == NONE
                assert member.commit("t", {0: number}) == {0: NONE}
                assert int(member.leave().error_code) == NONE
                member.drop_connection()
            assert time.monotonic() - began < 10
            assert cluster.probe(0, "/livez") == 200
            replica.terminate()
            assert replica.wait(STOP_SECONDS_MAX) == 0
        finally:
            replica.kill()
            replica.wait()
        with os.fdopen(reads, "rb") as reading:
            told = reading.read().splitlines()
        assert all(json.loads(line)["ts"] for line in told[:-1])  # the last one may be cut off by the end
        assert len(told) > 3


def _takes_more(reads: int) -> bool:
    """Is there room for another line?"""
    held = int.from_bytes(fcntl.ioctl(reads, termios.FIONREAD, b"\0" * 4), sys.byteorder)
    return held < PIPE_BYTES - 512
