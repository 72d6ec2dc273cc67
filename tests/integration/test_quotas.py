"""Clients of a real process are held to their quotas: a Java producer and a Java consumer at byte rates, an address at
its rate of new connections; who is throttled for longer than its session stays in its group, and a neighbour is not
slowed. `kafka-configs` and `muster quota` show the same.

`make test` has a short form; MUSTER_QUOTAS=whole (`make quotas`) holds both within 10 % over 60 s at each of four
levels. At each level, in both forms, a Java client's own metrics tell that it was held: its user looks at those.
"""

import contextlib
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.wire.versions import Api

from tests import kafka_tools
from tests.cluster import MusterCluster, wait_until, watch_stays
from tests.integration.failover_load import JavaProducerLoad, records_of
from tests.wire.kio_entities import decode_answer, encode_request

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.paced, pytest.mark.timeout(1_200)]

WHOLE = os.environ.get("MUSTER_QUOTAS") == "whole"
PRODUCE = "org.apache.kafka.tools.ProducerPerformance"
CONSUME = "org.apache.kafka.tools.ConsumerPerformance"
WINDOWS = 10
"""Of one second: whoever begins may use nine seconds' worth at once."""
SOON_OVER = WINDOWS + 1
"""So many seconds' worth, sent within two, are over what may be used at once."""
FEW = 330
SESSION_MS = 6_000
RECORD_BYTES = 1_000
ANYBODY = "ANONYMOUS"
EXPELLED = 'muster_events_total{event="member expelled"}'


class Held:
    """A cluster of one replica, and what tests ask it."""

    def __init__(self, cluster: MusterCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder

    def muster(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "muster_coordinator.cli.main", *arguments, "-b", self.cluster.bootstrap]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def topic(self, name: str) -> None:
        self.muster("topic", "create", name, "--partitions", "1", "--replication-factor", "1")

    def produce(self, topic: str, client: str, records: int) -> list[str]:
        return [
            PRODUCE, "--topic", topic, "--num-records", str(records), "--record-size", str(RECORD_BYTES),
            "--throughput", "-1", "--print-metrics", "--command-property",
            f"bootstrap.servers={self.cluster.bootstrap}", f"client.id={client}", "batch.size=16384", "linger.ms=5",
        ]  # fmt: skip

    def consume(self, topic: str, client: str, group: str, records: int, fetch_bytes: int = 1_048_576) -> list[str]:
        config = self.folder / f"{client}-{group}.properties"
        config.write_text(f"client.id={client}\nsession.timeout.ms={SESSION_MS}\nheartbeat.interval.ms=1000\n")
        return [
            CONSUME, "--bootstrap-server", self.cluster.bootstrap, "--topic", topic, "--num-records", str(records),
            "--group", group, "--print-metrics", "--command-config", str(config), "--timeout", "60000",
            "--fetch-size", str(fetch_bytes),
        ]  # fmt: skip

    def in_force(self) -> None:
        """What the log has of quotas holds by now."""
        entities = {tuple(row.get(kind) for kind in ("user", "client", "ip")) for row in self.quotas()}
        wait_until("the quotas hold", lambda: self.metric("muster_quota_entities") == len(entities), 30)

    def quotas(self, *options: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.muster("quota", "list", "-o", "json", *options))
        return found

    def metric(self, name: str) -> float:
        """Its series are added up; a label may stand in the name."""
        found = [line.rpartition(" ")[2] for line in self.cluster.metrics(0).splitlines() if line.startswith(name)]
        return sum(map(float, found))


def told(output: str, metric: str) -> float:
    """A metric of a Java client, from what its tool prints."""
    found = re.search(rf":{metric}:\{{[^}}]*\}}\s*: (\S+)", output)
    assert found is not None, output[-2_000:]
    return float(found[1])


OWN_METRIC = {"producer": "produce-throttle-time", "consumer": "fetch-throttle-time"}


def throttle_told(output: str, kind: str) -> float:
    """The mean of what a Java client was told to keep still for, in ms, by its own metrics."""
    mean, greatest = (told(output, f"{OWN_METRIC[kind]}-{what}") for what in ("avg", "max"))
    assert 0 <= mean <= greatest
    return mean


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    if not WHOLE:
        settings["quota.window.num"] = str(WINDOWS)
    folder = tmp_path_factory.mktemp("quotas")
    with MusterCluster(folder / "cluster", replicas=1, partitions=2, settings=settings) as cluster:
        yield Held(cluster, folder)


def closed_of(held: Held, address: str, number: int) -> int:
    """How many of so many new connections are closed without a word within seconds."""
    asks = encode_request(Api.API_VERSIONS, 0, {}, 1, "asks")
    there = ("127.0.0.1", held.cluster.client_port(0))
    closed = 0
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_connection(there, 10, source_address=(address, 0))) for _ in range(number)
        ]
        for one in sockets:
            with contextlib.suppress(ConnectionError):
                one.sendall(asks)
        for one in sockets:
            one.settimeout(30)
            try:
                closed += one.recv(1) == b""
            except ConnectionError:
                closed += 1
    return closed


def lines(held: Held, *options: str) -> set[tuple[str, float]]:
    return {(row["quota"], row["value"]) for row in held.quotas(*options)}


@pytest.mark.skipif(WHOLE, reason="of make test: make quotas has a test of a minute for it")
def test_a_producer_is_held_is_told_so_and_its_neighbour_is_not(held: Held) -> None:
    """By user and client id; beside it another one by the user alone."""
    held.topic("produced")
    rate, records = 400_000, 5_200
    held.muster("quota", "set", "--user", ANYBODY, "--client", "held", f"producer_byte_rate={rate}")
    held.muster("quota", "set", "--user", ANYBODY, "--client", "neighbour", "producer_byte_rate=1000000000")
    held.muster("quota", "set", "--user", ANYBODY, f"producer_byte_rate={FEW * RECORD_BYTES // SOON_OVER}")
    before = held.metric('muster_throttle_seconds_total{quota="producer_byte_rate"}')
    held.in_force()
    beside = held.folder / "by-user.txt"
    with kafka_tools.running(*held.produce("produced", "by-user", FEW), output=beside) as by_user:
        began = time.monotonic()
        output = kafka_tools.run(*held.produce("produced", "held", records))
        seconds = time.monotonic() - began
        assert by_user.wait(60) == 0, beside.read_text()[-2_000:]
    assert throttle_told(beside.read_text(), "producer") > 0
    allowed = rate * (WINDOWS + seconds)
    assert records * RECORD_BYTES < allowed, "never more than its windows and the time since"
    assert seconds > (records * RECORD_BYTES / rate - WINDOWS) * 0.9
    assert throttle_told(output, "producer") > 0
    assert held.metric('muster_throttle_seconds_total{quota="producer_byte_rate"}') > before
    neighbour = kafka_tools.run(*held.produce("produced", "neighbour", records))
    assert told(neighbour, "produce-throttle-time-max") == 0
    shown = kafka_tools.run(
        kafka_tools.CONFIGS, "--bootstrap-server", held.cluster.bootstrap, "--describe",
        "--entity-type", "users", "--entity-name", ANYBODY, "--entity-type", "clients", "--entity-name", "held",
    )  # fmt: skip
    assert f"producer_byte_rate={float(rate)}" in shown
    assert lines(held, "--user", ANYBODY, "--client", "held") == {("producer_byte_rate", rate)}
    held.muster("quota", "remove", "--user", ANYBODY)


@pytest.mark.skipif(WHOLE, reason="of make test: make quotas has a test of a minute for it")
def test_a_consumer_that_is_muted_for_longer_than_its_session_stays_a_member(held: Held) -> None:
    """Nine seconds' worth at once, then so long nothing; its heartbeats have a connection of their own. The quota, of
    its client id, is set by Kafka's own tool. Who fills the topic is held by the default, and told so."""
    held.topic("consumed")
    rate, records = 20_000, FEW
    held.muster("quota", "set", *LEVELS["default"], f"producer_byte_rate={FEW * RECORD_BYTES // SOON_OVER}")
    held.in_force()
    filler = kafka_tools.run(*held.produce("consumed", "filler", records))
    assert throttle_told(filler, "producer") > 0
    held.muster("quota", "remove", *LEVELS["default"])
    kafka_tools.run(
        kafka_tools.CONFIGS, "--bootstrap-server", held.cluster.bootstrap, "--alter",
        "--entity-type", "clients", "--entity-name", "reader", "--add-config", f"consumer_byte_rate={rate}",
    )  # fmt: skip
    assert lines(held, "--client", "reader") == {("consumer_byte_rate", rate)}
    held.in_force()
    output = kafka_tools.run(*held.consume("consumed", "reader", "g", records))
    assert throttle_told(output, "consumer") > 0
    assert told(output, "fetch-throttle-time-max") > SESSION_MS
    assert told(output, "heartbeat-total") > SESSION_MS / 1_000 / 2
    assert told(output, "rebalance-total") == 1
    assert held.metric(EXPELLED) == 0
    assert held.metric('muster_throttled_requests_total{quota="consumer_byte_rate"}') > 0
    held.muster("quota", "remove", "--client", "reader")
    assert lines(held, "--client", "reader") == set()


@pytest.mark.skipif(WHOLE, reason="of make test: make quotas has no longer form of it")
def test_an_address_is_held_to_its_rate_of_new_connections_and_another_is_not(held: Held) -> None:
    held.muster("quota", "set", "--ip", "127.0.0.2", "connection_creation_rate=1")
    held.in_force()
    before = held.metric("muster_client_connections_refused_total")
    many = 10 * WINDOWS
    assert closed_of(held, "127.0.0.2", many) >= many // 2
    refused = held.metric("muster_client_connections_refused_total") - before
    assert refused >= many // 2
    assert closed_of(held, "127.0.0.3", many) == 0
    assert held.metric("muster_client_connections_refused_total") == before + refused
    held.muster("quota", "remove", "--ip", "127.0.0.2")
    held.in_force()
    assert closed_of(held, "127.0.0.2", many) == 0


class Asking:
    """One connection by hand: one request at a time, so that what it takes is the server's and no library's."""

    def __init__(self, held: Held, client: str) -> None:
        self._client = client
        self._socket = socket.create_connection(("127.0.0.1", held.cluster.client_port(0)), 60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = self._socket.makefile("rb")

    def ask(self, api: Api, version: int, **values: Any) -> Any:
        self._socket.sendall(encode_request(api, version, values, 7, self._client))
        size = self._read.read(4)
        return decode_answer(api, version, size + self._read.read(int.from_bytes(size, "big")))[1]

    def close(self) -> None:
        self._read.close()
        self._socket.close()


def created(maker: Asking, name: str, partitions: int) -> tuple[int, float]:
    """(code, seconds of throttling)"""
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    answer = maker.ask(Api.CREATE_TOPICS, 7, topics=[topic], timeout_ms=30_000)
    return int(answer.topics[0].error_code.value), answer.throttle_time.total_seconds()


def test_partitions_are_held_topic_by_topic_and_kafkas_tool_is_told_so(held: Held) -> None:
    """Half a one a second, five and a half at once."""
    held.muster("quota", "set", "--client", "maker", "controller_mutation_rate=0.5")
    held.in_force()
    name = 'muster_throttled_requests_total{quota="controller_mutation_rate"}'
    before = held.metric(name)
    with contextlib.closing(Asking(held, "maker")) as maker:
        assert created(maker, "made-at-once", 16) == (0, 0)
        code, seconds = created(maker, "made-late", 1)
    assert (code, held.metric(name)) == (89, before + 1)
    assert 0 < seconds <= 21
    with contextlib.closing(Asking(held, "another")) as another:
        assert created(another, "made-by-another", 16) == (0, 0)
    if WHOLE:
        config = held.folder / "maker.properties"
        config.write_text("client.id=maker\n")
        refused = kafka_tools.run(
            kafka_tools.TOPICS, "--bootstrap-server", held.cluster.bootstrap, "--command-config", str(config),
            "--create", "--topic", "made-late", "--partitions", "1", "--replication-factor", "1", fails=True,
        )  # fmt: skip
        assert "The throttling quota has been exceeded." in refused, "it asks once, and says so"
    held.muster("quota", "remove", "--client", "maker")
    held.in_force()
    with contextlib.closing(Asking(held, "maker")) as maker:
        assert created(maker, "made-without", 30) == (0, 0)


@pytest.mark.skipif(not WHOLE, reason="a client that works for a while: make quotas, in the nightly")
def test_a_java_client_is_held_to_the_brokers_time_and_told_so(held: Held) -> None:
    """A hundred requests a second take many times what it may take."""
    held.topic("timed")
    held.muster("quota", "set", "--client", "timed", "request_percentage=0.5")
    held.in_force()
    name = 'muster_throttled_requests_total{quota="request_percentage"}'
    before = held.metric(name)
    config = held.folder / "timed.properties"
    config.write_text("client.id=timed\n")
    load = JavaProducerLoad(held.cluster.bootstrap, "timed", 0, properties=config)
    try:
        wait_until("it is throttled again and again", lambda: held.metric(name) >= before + 5, 120, 0.5)
        with contextlib.closing(Asking(held, "untimed")) as neighbour:
            for _ in range(20):
                assert neighbour.ask(Api.FIND_COORDINATOR, 3, key="g").throttle_time.total_seconds() == 0
        load.finish()
    finally:
        load.dispose()
        held.muster("quota", "remove", "--client", "timed")
        held.in_force()
    assert 0 < load.throttle_ms_max <= 1_000, "one window at most"
    assert records_of(held.cluster.bootstrap, "timed", 0) == [str(n) for n in range(load.sent)]


NEIGHBOUR_TURNS, NEIGHBOUR_SECONDS, NEIGHBOUR_PAUSE_S = 8, 4, 0.004


@pytest.mark.skipif(not WHOLE, reason="a minute of one neighbour's requests: make quotas, in the nightly")
def test_a_neighbours_p99_stays_within_half_as_much_again_while_another_is_throttled(held: Held) -> None:
    """A neighbour's Produce, while the other producer is frozen and while it runs above its quota, in turns: what else
    happens on the machine meets both."""
    held.topic("crowded")
    held.topic("quiet")
    held.muster("quota", "set", "--client", "held", f"producer_byte_rate={RATE}")
    held.in_force()
    throttled = 'muster_throttle_seconds_total{quota="producer_byte_rate"}'
    before = held.metric(throttled)
    took: dict[bool, list[float]] = {False: [], True: []}
    output = held.folder / "crowded.txt"
    with output.open("wb") as out:
        other = subprocess.Popen(kafka_tools.command(*held.produce("crowded", "held", 10**8)), stdout=out, stderr=out)
    try:
        wait_until("it is throttled", lambda: held.metric(throttled) > before, 60, 0.5)
        with contextlib.closing(Asking(held, "neighbour")) as neighbour:
            for turn in range(2 * NEIGHBOUR_TURNS):
                runs = turn % 2 == 1
                other.send_signal(signal.SIGCONT if runs else signal.SIGSTOP)
                until = time.monotonic() + NEIGHBOUR_SECONDS
                while time.monotonic() < until:
                    began = time.perf_counter()
                    assert produced(neighbour, "quiet") == 0
                    took[runs].append(time.perf_counter() - began)
                    time.sleep(NEIGHBOUR_PAUSE_S)
                assert other.poll() is None, output.read_text()[-2_000:]
        assert held.metric(throttled) > before + NEIGHBOUR_TURNS * NEIGHBOUR_SECONDS / 2
    finally:
        other.send_signal(signal.SIGCONT)
        other.kill()
        other.wait()
        held.muster("quota", "remove", "--client", "held")
        held.in_force()
    alone, beside = (statistics.quantiles(took[runs], n=100)[98] for runs in (False, True))
    assert beside <= 1.5 * alone, "p99 in seconds"


def record_batch() -> bytes:
    """One record of a hundred bytes, as any producer writes it."""
    return encode_batch([(None, b"x" * 100)], timestamp_ms=1_700_000_000_000)


def produced(neighbour: Asking, topic: str) -> int:
    part = {"index": 0, "records": record_batch()}
    data = [{"name": topic, "partition_data": [part]}]
    answer = neighbour.ask(Api.PRODUCE, 9, acks=-1, timeout_ms=30_000, topic_data=data)
    return int(answer.responses[0].partition_responses[0].error_code.value)


LEVELS = {
    "user and client id": ("--user", ANYBODY, "--client", "held"),
    "user": ("--user", ANYBODY),
    "client id": ("--client", "held"),
    "default": ("--client-defaults",),
}
"""By precedence; those below each have a tenth of its rate as a decoy."""
KINDS = ("producer", "consumer")
RATE = 250_000
WARM_SECONDS, LONG_SECONDS = 20, 60
"""A Fetch of more than a fraction of a second's worth leaves some of the rate unused, by Kafka's arithmetic too."""
MORE_THAN_HELD = RATE * 130 // RECORD_BYTES
"""Records that nobody who is held has done before both are let go, with what the windows allow at once."""
DONE_S = 60


@pytest.fixture(scope="module")
def filled(held: Held) -> str:
    """A topic with more than a consumer may take in a test."""
    held.topic("filled")
    for _ in range(7):
        kafka_tools.run(*held.produce("filled", "filler", RATE * 20 // RECORD_BYTES))
    return "filled"


@contextlib.contextmanager
def held_at(held: Held, level: str) -> Iterator[None]:
    """Quotas at a level and, with a tenth of its rate, at all below it, until the block ends."""
    below = list(LEVELS.values())[list(LEVELS).index(level) :]
    for place, who in enumerate(below):
        rate = RATE if place == 0 else RATE // 10
        held.muster("quota", "set", *who, f"producer_byte_rate={rate}", f"consumer_byte_rate={rate}")
    try:
        yield
    finally:
        for who in below:
            held.muster("quota", "remove", *who)
        held.in_force()


@pytest.mark.skipif(not WHOLE, reason="a minute at each level: make quotas, in the nightly")
@pytest.mark.parametrize("level", LEVELS)
def test_both_are_held_within_a_tenth_of_their_rates_over_a_minute(held: Held, filled: str, level: str) -> None:
    """By the broker's count of bytes; then both are let go, finish, and print what they were told meanwhile."""
    name = level.replace(" ", "-")
    held.topic(f"in-{name}")
    expelled = held.metric(EXPELLED)
    throttled = {kind: held.metric(f'muster_throttle_seconds_total{{quota="{kind}_byte_rate"}}') for kind in KINDS}
    outputs = {kind: held.folder / f"{name}-{kind}.txt" for kind in KINDS}
    commands = {
        "producer": held.produce(f"in-{name}", "held", MORE_THAN_HELD),
        "consumer": held.consume(filled, "held", name, MORE_THAN_HELD, fetch_bytes=RATE // 8),
    }
    with contextlib.ExitStack() as both:
        started: dict[str, subprocess.Popen[bytes]] = {}

        def work() -> bool:
            assert all(one.poll() is None for one in started.values()), tails(outputs)
            return True

        with held_at(held, level):
            for kind, words in commands.items():
                started[kind] = both.enter_context(kafka_tools.running(*words, output=outputs[kind]))
            watch_stays("both work", work, WARM_SECONDS)
            began = time.monotonic()
            received, sent = (held.metric(f"muster_client_{what}_bytes_total") for what in ("received", "sent"))
            watch_stays("both work", work, LONG_SECONDS)
            seconds = time.monotonic() - began
            received = held.metric("muster_client_received_bytes_total") - received
            sent = held.metric("muster_client_sent_bytes_total") - sent
        ends = {kind: one.wait(DONE_S) for kind, one in started.items()}
        assert ends == dict.fromkeys(KINDS, 0), tails(outputs)
    assert held.metric(EXPELLED) == expelled
    assert (received / seconds, sent / seconds) == pytest.approx((RATE, RATE), rel=0.1)
    for kind, before in throttled.items():
        assert held.metric(f'muster_throttle_seconds_total{{quota="{kind}_byte_rate"}}') > before, "at this level"
        assert throttle_told(outputs[kind].read_text(), kind) > 0, "by the client's own metrics"


def tails(outputs: dict[str, Path]) -> dict[str, str]:
    return {kind: path.read_text()[-2_000:] for kind, path in outputs.items()}
