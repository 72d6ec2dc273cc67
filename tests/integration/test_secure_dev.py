"""`muster dev --secure` and the README's lines, word by word: what it prints for Java, librdkafka, kafka-python and
aiokafka is taken from its output and used; what was not allowed is denied; a second start keeps CA and users; no
password in any output.

Added to the README's lines are a port that is free and the address that belongs to it, in the environment.
"""

import asyncio
import json
import re
import shlex
import textwrap
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests import kafka_tools
from tests.cluster import wait_until
from tests.integration.readme_cluster import ROOT, ReadmeCluster, commands_of
from tests.live_files import live_contents, live_paths

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.timeout(400)]

RECORDS = 10
GO_ON_S = 90


def readme_lines() -> list[str]:
    return commands_of("secure")


class SecureDev(ReadmeCluster):
    """The cluster that the README's first line starts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.environment["MUSTER_BOOTSTRAP"] = f"localhost:{self.port}"

    @property
    def secure(self) -> Path:
        return self.cwd / "muster-secure" / "secure"

    def admin(self, replica: int) -> str:
        return f"127.0.0.1:{self.port + 300 + replica}"

    def printed(self, family: str) -> str:
        """The lines below this family's, as they stand."""
        text = self.log.read_text()
        found = re.search(rf"^{re.escape(family)}.*?:\n((?:  .*\n)+)", text, re.MULTILINE)
        assert found is not None, text
        return textwrap.dedent(found[1])

    def settings(self, family: str) -> dict[str, Any]:
        """What the printed Python makes."""
        made: dict[str, Any] = {}
        exec(self.printed(family), made)
        return dict(made["settings"])

    def quiet(self) -> dict[str, Any]:
        """Those of librdkafka, and nothing on standard error while brokers are away."""
        return self.settings("confluent-kafka") | {"error_cb": lambda _: None, "log_level": 0}


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureDev]:
    it = SecureDev(tmp_path_factory.mktemp("secure"))
    try:
        it.start(readme_lines()[0])
        made = AdminClient(it.quiet())
        made.create_topics([NewTopic("t", 1, 3)])["t"].result(30)
        producer = Producer(it.quiet())
        failed: list[object] = []
        for number in range(RECORDS):
            producer.produce("t", str(number), on_delivery=lambda error, _: error and failed.append(error))
        assert (producer.flush(60), failed) == (0, [])
        yield it
    finally:
        it.stop()


VALUES = [str(number).encode() for number in range(RECORDS)]


def test_the_lines_of_the_readme(dev: SecureDev) -> None:
    said = []
    for line in readme_lines()[1:]:
        done = dev.run(line)
        assert done.returncode == 0, (line, done.stderr)
        said.append(done.stdout)
    _, _, consumed, users, status = said
    assert set(consumed.splitlines()) <= set((ROOT / "README.md").read_text().splitlines())
    assert len(consumed.splitlines()) == 10
    assert [row.split()[0] for row in users.splitlines()] == ["USER", "admin", "app"]
    assert status.count("ready") >= 3
    assert dev.run(dev.printed("muster").strip().replace("muster ", ".venv/bin/muster ", 1)).returncode == 0


def test_librdkafka(dev: SecureDev) -> None:
    consumer = Consumer(dev.quiet() | {"group.id": "librdkafka", "auto.offset.reset": "earliest"})
    found: list[bytes | None] = []
    try:
        consumer.subscribe(["t"])

        def all_read() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(message.value())
            return len(found) >= RECORDS

        wait_until("all are read", all_read, GO_ON_S, every=0)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert found == VALUES
    words = shlex.split(dev.printed("librdkafka, kcat"))
    assert words[:2] == ["kcat", "-F"]
    lines = [line for line in Path(words[2]).read_text().splitlines() if not line.startswith("#")]
    by_file = AdminClient(dict(line.split("=", 1) for line in lines))
    assert "t" in by_file.list_topics(timeout=GO_ON_S).topics


def test_kafka_python(dev: SecureDev) -> None:
    more = {"group_id": "kafka-python", "auto_offset_reset": "earliest", "consumer_timeout_ms": GO_ON_S * 1_000}
    consumer = kafka.KafkaConsumer("t", **dev.settings("kafka-python"), **more)
    try:
        assert [next(consumer).value for _ in range(RECORDS)] == VALUES
        consumer.commit()
    finally:
        consumer.close()


def test_aiokafka(dev: SecureDev) -> None:
    """It commits by itself nowhere: `stop` would do so for ever if the coordinator moves just then (aiokafka #659)."""

    async def read() -> list[bytes | None]:
        more = {"group_id": "aiokafka", "auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = aiokafka.AIOKafkaConsumer("t", **dev.settings("aiokafka"), **more)
        await consumer.start()
        try:
            async with asyncio.timeout(GO_ON_S):
                found = [(await consumer.getone()).value for _ in range(RECORDS)]
                await consumer.commit()
                return found
        finally:
            await consumer.stop()

    assert asyncio.run(read()) == VALUES


def test_java_loads_the_truststore(dev: SecureDev) -> None:
    path = dev.printed("Java and Kafka's tools").strip()
    said = kafka_tools.run(
        kafka_tools.CONSUMER, "--bootstrap-server", f"localhost:{dev.port}", "--command-config", path, "--topic", "t",
        "--group", "java", "--from-beginning", "--max-messages", str(RECORDS),
    )  # fmt: skip
    assert said.split() == [value.decode() for value in VALUES]


def test_what_was_not_allowed_is_denied_and_nobody_gets_in_unknown(dev: SecureDev) -> None:
    settings = dev.quiet()
    application = AdminClient(settings)
    with pytest.raises(KafkaException) as error:
        application.delete_topics(["t"])["t"].result(30)
    assert error.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    denied = dev.run(".venv/bin/muster user list --config muster-secure/secure/app.properties")
    assert denied.returncode == 1, denied.stderr
    wrong = settings | {"sasl.password": "wrong"}
    with pytest.raises(KafkaException):
        AdminClient(wrong).list_topics(timeout=5)
    without = dev.run(f".venv/bin/muster cluster status --token-file muster-secure/admin-token --admin {dev.admin(0)}")
    assert (without.returncode, "https" in without.stderr) == (4, True), without.stderr


def test_a_broker_joins_and_a_second_start_keeps_ca_and_users(dev: SecureDev) -> None:
    joined = dev.run(".venv/bin/muster dev add-broker --data ./muster-secure --wait 120")
    assert joined.returncode == 0, joined.stderr
    kept = ["ca.crt", "server.crt", "admin.password", "app.password"]
    before = [(dev.secure / name).read_bytes() for name in kept]
    dev.stop()
    dev.start(readme_lines()[0].replace(" --secure", ""))
    assert [(dev.secure / name).read_bytes() for name in kept] == before
    status = dev.run(".venv/bin/muster cluster status --dev ./muster-secure -o json")
    assert status.returncode == 0, status.stderr
    assert {row["broker"] for row in json.loads(status.stdout)["replicas"]} == {0, 1, 2, 3}
    consumer = Consumer(dev.quiet() | {"group.id": "again", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["t"])
        wait_until("a record is read", lambda: consumer.poll(0.5), GO_ON_S, every=0)
    finally:
        consumer.close()


@pytest.fixture(autouse=True)
def no_password_is_anywhere(dev: SecureDev) -> Iterator[None]:
    """After each test, since they come in any order: in all that was said so far, and in what others may read."""
    yield
    secrets = [(dev.secure / f"{user}.password").read_text().strip() for user in ("admin", "app")]
    texts = [*dev.said, dev.log.read_text(errors="replace")]
    for path, found in live_contents(live_paths(dev.cwd / "muster-secure", "**/*")):
        if "data" not in path.parts and path.stat().st_mode & 0o077:
            texts.append(found.decode(errors="replace"))
    texts += [path.read_text(errors="replace") for path in dev.cwd.glob("muster-secure/replica-*/server.log")]
    with urllib.request.urlopen(f"http://127.0.0.1:{dev.port + 200}/metrics", timeout=30) as answer:
        texts.append(answer.read().decode())
    assert len(texts) > 6
    for secret in secrets:
        assert len(secret) == 32
        assert not any(secret in text for text in texts)
    files = [path for path in live_paths(dev.cwd / "muster-secure", "**/*") if "data" in path.parts]
    data = [found for _, found in live_contents(files)]
    assert data
    assert not any(secret.encode() in found for found in data for secret in secrets)
