"""Stream processors in Python with tables: quixstreams over librdkafka and faust-streaming over aiokafka, from PyPI in
environments of their own.

Each counts words, is killed, loses its state and gets it back from its compacted changelog, and lives through a killed
broker. The last counts are a `Counter`'s, and the committed offsets the ends of the words. quixstreams promises exactly
once: every count is the one before plus one. faust-streaming promises at least once and tells a count again; what its
program has to do for that, and why, stands in `programs/faust_counts.py`.
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
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests import orphans
from tests.applications.clusters import cluster_for
from tests.applications.environments import python_with
from tests.applications.reading import read_committed
from tests.cluster import MusterCluster, wait_until

pytestmark = [pytest.mark.applications, pytest.mark.timeout(1_500)]

QUIX, FAUST = "quixstreams==3.28.1", "faust-streaming==0.15.3"
PARTITIONS, WORDS = 3, 300
SETTLES_S_MAX = 400
STARTS_AGAIN_MAX = 20


@pytest.fixture
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

    def __init__(self, folder: Path, command: list[str], starts_again_max: int) -> None:
        self._log = folder / "application.log"
        self._command = command
        self._starts_again = starts_again_max
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
        """As a supervisor does: one that ended is started again, so many times as it may be."""
        assert self._process is not None
        if self._process.poll() is not None:
            assert self._starts_again, self.told()
            self._starts_again -= 1
            self.start()


@contextmanager
def running(folder: Path, command: list[str], starts_again_max: int = 0) -> Iterator[Application]:
    one = Application(folder, command, starts_again_max)
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


def committed(cluster: MusterCluster, stem: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    group = f"{stem}-app"
    try:
        offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(20)
    except KafkaException:
        return {}
    return {one.partition: one.offset for one in offsets.topic_partitions if one.topic == f"{stem}-words"}


def wait_counted(cluster: MusterCluster, application: Application, feed: Feed, stem: str) -> None:
    topic = f"{stem}-counts"

    def counted() -> bool:
        application.check()
        return (
            last_counts(cluster, topic)[0] == dict(feed.sent)
            and sum(committed(cluster, stem).values()) == feed.sent.total()
        )

    try:
        wait_until("all is counted and committed", counted, SETTLES_S_MAX, 1)
    except AssertionError as error:
        found = last_counts(cluster, topic)[0]
        differ = {word: (found.get(word), count) for word, count in feed.sent.items() if found.get(word) != count}
        offsets = committed(cluster, stem)
        raise AssertionError(f"{error}: (counted, sent) {differ}; committed {offsets}\n{application.told()}") from None


def assert_compacted(cluster: MusterCluster, stem: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    (name,) = [name for name in admin.list_topics(timeout=20).topics if stem in name and "changelog" in name]
    resource = ConfigResource(ResourceType.TOPIC, name)
    assert "compact" in str(admin.describe_configs([resource])[resource].result(20)["cleanup.policy"].value)


def killed_restored_and_without_a_broker(
    cluster: MusterCluster, folder: Path, stem: str, package: str, arguments: list[str], starts_again_max: int
) -> None:
    """One life, and another without the state of the first, in which a broker is killed."""
    state = folder / "state"
    program = Path(__file__).with_name("programs") / f"{stem}_counts.py"
    command = [str(python_with(package)), str(program), str(state), cluster.bootstrap, *arguments]
    feed = Feed(cluster, stem)
    feed.send(WORDS)
    with running(folder, command, starts_again_max) as application:
        wait_counted(cluster, application, feed, stem)
        assert_compacted(cluster, stem)
        feed.send(WORDS)
        application.end(signal.SIGKILL)
        shutil.rmtree(state, ignore_errors=True)
        feed.send(WORDS)
        application.start()
        cluster.kill(2)
        feed.send(WORDS)
        cluster.start_replica(2)
        wait_counted(cluster, application, feed, stem)


def test_quixstreams(cluster: MusterCluster, tmp_path: Path) -> None:
    killed_restored_and_without_a_broker(cluster, tmp_path, "quix", QUIX, [], 0)
    assert last_counts(cluster, "quix-counts")[1] == []


def test_faust_streaming(cluster: MusterCluster, tmp_path: Path) -> None:
    """It ends when the first broker that it asks at its start is just gone: it is started again."""
    arguments = ["worker", "--without-web", "-l", "info"]
    killed_restored_and_without_a_broker(cluster, tmp_path, "faust", FAUST, arguments, STARTS_AGAIN_MAX)
