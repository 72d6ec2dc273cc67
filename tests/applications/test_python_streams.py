"""A stream processor in Python with tables: quixstreams over librdkafka, from PyPI in an environment of its own.

It counts words, is killed, loses its state on disk and gets it back from its compacted changelog, and lives through a
killed broker. It promises exactly once: every count is the one before plus one.
"""

import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests import orphans
from tests.applications.clusters import cluster_for
from tests.applications.environments import python_with
from tests.applications.reading import read_committed
from tests.cluster import MusterCluster, wait_until

pytestmark = [pytest.mark.applications, pytest.mark.timeout(1_500)]

QUIX = "quixstreams==3.28.1"
PARTITIONS, WORDS = 3, 300
SETTLES_S_MAX = 400


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    with cluster_for(tmp_path_factory.mktemp("streams") / "data") as found:
        yield found


class Feed:
    """Words, and how often each was sent; a word is always in the same partition."""

    def __init__(self, cluster: MusterCluster, stem: str) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
        self._rand = Random(stem)
        self._stem = stem
        self.sent: Counter[str] = Counter()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        wanted = [NewTopic(f"{stem}-{what}", PARTITIONS, 3) for what in ("words", "counts")]
        for future in admin.create_topics(wanted, operation_timeout=30).values():
            future.result(40)

    def send(self, words: int) -> None:
        for _ in range(words):
            word = f"w{self._rand.randrange(20)}"
            self.sent[word] += 1
            self._producer.produce(f"{self._stem}-words", word, word)
        assert self._producer.flush(60) == 0


class Application:
    """One life after the other."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self._log = folder / "application.log"
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        orphans.watch(self._process.pid)

    def end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(120)
            finally:
                self._process.kill()
                self._process.wait()
                self._process = None

    def told(self) -> str:
        return self._log.read_text("utf-8")[-6_000:]

    def check(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, self.told()


@contextmanager
def running(folder: Path, command: list[str]) -> Iterator[Application]:
    one = Application(folder, command)
    one.start()
    try:
        yield one
    finally:
        one.end(signal.SIGKILL)


def last_counts(cluster: MusterCluster, topic: str) -> tuple[dict[str, int], list[str]]:
    """(the last count of each word, every step that is not the one before plus one)."""
    counts: dict[str, int] = {}
    wrong = []
    for _, _, key, value in read_committed(cluster.bootstrap, topic):
        word, count = key.decode(), int(value)
        if count != counts.get(word, 0) + 1:
            wrong.append(f"{word}: {count} after {counts.get(word, 0)}")
        counts[word] = count
    return counts, wrong


def wait_counted(cluster: MusterCluster, application: Application, feed: Feed, topic: str) -> None:
    def counted() -> bool:
        application.check()
        return last_counts(cluster, topic)[0] == dict(feed.sent)

    try:
        wait_until("all is counted", counted, SETTLES_S_MAX, 1)
    except AssertionError:
        found = last_counts(cluster, topic)[0]
        raise AssertionError(f"{found}, not {dict(feed.sent)}\n{application.told()}") from None


def assert_compacted(cluster: MusterCluster, stem: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    (name,) = [name for name in admin.list_topics(timeout=20).topics if stem in name and "changelog" in name]
    resource = ConfigResource(ResourceType.TOPIC, name)
    assert "compact" in str(admin.describe_configs([resource])[resource].result(20)["cleanup.policy"].value)


def test_tables_come_back_from_their_changelogs(cluster: MusterCluster, tmp_path: Path) -> None:
    state = tmp_path / "state"
    program = Path(__file__).with_name("programs") / "quix_counts.py"
    command = [str(python_with(QUIX)), str(program), str(state), cluster.bootstrap]
    feed = Feed(cluster, "quix")
    feed.send(WORDS)
    with running(tmp_path, command) as application:
        wait_counted(cluster, application, feed, "quix-counts")
        assert_compacted(cluster, "quix")
        feed.send(WORDS)
        application.end(signal.SIGKILL)
        shutil.rmtree(state, ignore_errors=True)
        feed.send(WORDS)
        application.start()
        cluster.kill(2)
        feed.send(WORDS)
        cluster.start_replica(2)
        wait_counted(cluster, application, feed, "quix-counts")
        assert last_counts(cluster, "quix-counts")[1] == []
