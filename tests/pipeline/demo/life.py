"""A minute in the life of groups on a Muster cluster: joins, leaves, kills, a dead coordinator, resets by commit."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from muster_pipeline.sources.cluster import Cluster
from muster_pipeline.sources.log_end_offsets import sample

from tests.cluster import MusterCluster, wait_until
from tests.pipeline.demo.member import QUIET

TOPICS = {"flights": 6, "weather": 3}
NAME = "demo"
RATE_PER_S = 200
STEP_SECONDS_MAX = 180
LOG_CHARACTERS_SHOWN = 2_000
SAMPLE_EVERY_S = 5.0
SIMPLE = "gr üp:код/.."
Say = Callable[[str], None]


class Life:
    """Everything that happens, in order. Members are processes; they stay until `stop`."""

    def __init__(self, cluster: MusterCluster, say: Say) -> None:
        self.cluster, self.say = cluster, say
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self.members: dict[str, subprocess.Popen[bytes]] = {}
        self.log_ends: list[pa.Table] = []
        self._quiet = threading.Event()

    # --- clients

    def member(self, name: str, group: str, strategy: str = "range", instance: str = "-") -> None:
        command = [sys.executable, "-m", "tests.pipeline.demo.member", self.cluster.bootstrap, group, name, strategy]
        root = Path(__file__).resolve().parents[3]
        self.members[name] = subprocess.Popen([*command, instance, *TOPICS], cwd=root, stdout=subprocess.PIPE)

    def leave(self, name: str) -> None:
        process = self.members.pop(name)
        process.terminate()
        process.communicate(timeout=STEP_SECONDS_MAX)

    def kill(self, name: str) -> None:
        process = self.members.pop(name)
        process.kill()
        process.communicate()

    def quieten(self) -> None:
        """The members stay, and none of them commits after this."""
        for process in self.members.values():
            process.send_signal(signal.SIGUSR1)
        for name, process in self.members.items():
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], STEP_SECONDS_MAX)
            assert ready, f"{name} is not quiet after {STEP_SECONDS_MAX} s"
            assert process.stdout.readline().decode().strip() == QUIET, f"{name} ended"

    def stop(self) -> None:
        self._quiet.set()
        for process in self.members.values():
            process.kill()
        for process in self.members.values():
            process.communicate()

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0, "linger.ms": 50})
        places = [(topic, number) for topic, count in TOPICS.items() for number in range(count)]
        count = 0
        while not self._quiet.wait(0.1):
            for _ in range(RATE_PER_S // 10):
                topic, number = places[count % len(places)]
                producer.produce(topic, str(count), partition=number)
                count += 1
            producer.poll(0)
        assert producer.flush(STEP_SECONDS_MAX) == 0

    def _sample(self) -> None:
        while not self._quiet.wait(SAMPLE_EVERY_S):
            self.sample()

    def sample(self) -> pa.Table:
        """Log ends now; kept for lag."""
        with Cluster(self.cluster.bootstrap) as cluster:
            found = sample(cluster, NAME, sorted(TOPICS), lambda: time.time_ns() // 1_000_000)
        self.log_ends.append(found)
        return found

    # --- the coordinator's answers

    def group(self, name: str) -> dict[str, Any] | None:
        """`/v1/groups/{name}` from whoever coordinates it; None while nobody says."""
        for replica in range(self.cluster.replicas):
            try:
                status, body = self.cluster.admin(replica, f"/v1/groups/{quote(name, safe='')}")
            except OSError:
                continue
            if status == 200:
                return body
        return None

    def has(self, group: str, *names: str) -> Callable[[], bool]:
        """Whether the group is stable with just these members, and they own every partition."""

        def look() -> bool:
            found = self.group(group)
            if found is None or found["state"] != "Stable":
                return False
            owned = sum(len(part["partitions"]) for one in found["members"] for part in one["assignment"] or ())
            return {one["client_id"] for one in found["members"]} == set(names) and owned == sum(TOPICS.values())

        return look

    def settles(self, what: str, group: str, *names: str) -> None:
        wait_until(what, self.has(group, *names), STEP_SECONDS_MAX, 0.3)
        self.say(what)

    # --- the story

    def begin(self) -> None:
        wanted = [NewTopic(name, count, replication_factor=3) for name, count in TOPICS.items()]
        for future in self.admin.create_topics(wanted).values():
            future.result(STEP_SECONDS_MAX)

    def live(self, seconds: float) -> None:
        began = time.monotonic()
        threads = [threading.Thread(target=work, daemon=True) for work in (self._produce, self._sample)]
        for thread in threads:
            thread.start()
        self.member("tower-a", "tower")
        self.member("tower-b", "tower")
        self.member("coop-a", "approach", "cooperative-sticky")
        self.member("pod-0", "ground", "roundrobin", "pod-0")
        self.member("pod-1", "ground", "roundrobin", "pod-1")
        self.member("short", "visitors")
        self.settles("two members joined `tower`", "tower", "tower-a", "tower-b")
        self.settles("one member joined `approach`", "approach", "coop-a")
        self.settles("two static members joined `ground`", "ground", "pod-0", "pod-1")
        self.settles("one member joined `visitors`", "visitors", "short")
        self.member("tower-c", "tower")
        self.member("coop-b", "approach", "cooperative-sticky")
        self.settles("a third joined `tower`", "tower", "tower-a", "tower-b", "tower-c")
        self.settles("a second joined `approach`, cooperatively", "approach", "coop-a", "coop-b")
        self.leave("tower-a")
        self.settles("`tower-a` left", "tower", "tower-b", "tower-c")
        self.leave("pod-1")
        self.member("pod-1", "ground", "roundrobin", "pod-1")
        self.settles("static member pod-1 was restarted", "ground", "pod-0", "pod-1")
        self.kill("tower-b")
        self.settles("`tower-b` was killed with SIGKILL; the group goes on without it", "tower", "tower-c")
        self._kill_coordinator("tower")
        self.settles("`tower` goes on", "tower", "tower-c")
        self.leave("short")
        self.reset("visitors", 3)
        self.reset(SIMPLE, 0)
        while time.monotonic() - began < seconds:
            time.sleep(0.5)
        self._quiet.set()
        for thread in threads:
            thread.join(STEP_SECONDS_MAX)
        self.quieten()

    def _kill_coordinator(self, group: str) -> None:
        found = self.group(group)
        assert found is not None
        replica = next(
            n for n in range(self.cluster.replicas) if self.cluster.status(n)["broker"] == found["coordinator"]
        )
        pid = self.cluster.pid(replica)
        os.kill(pid, signal.SIGKILL)
        self.say(f"the coordinator of `{group}` (replica {replica}) was killed with SIGKILL")
        wait_until(
            "another coordinator", lambda: (self.group(group) or found)["coordinator"] != found["coordinator"], 60
        )
        self.cluster.start_replica(replica)
        self.say(f"replica {replica} is back")

    def reset(self, group: str, offset: int) -> None:
        """By commit, as reset tools do; a group that is not empty yet refuses."""
        places = [TopicPartition("flights", number, offset + number) for number in range(TOPICS["flights"])]

        def done() -> bool:
            asked = [ConsumerGroupTopicPartitions(group, places)]
            try:
                answer = self.admin.alter_consumer_group_offsets(asked)[group].result(30)
            except Exception as error:  # noqa: BLE001 - librdkafka's one error type, polled towards a deadline
                self.say(f"not yet: {error}")
                return False
            return all(one.error is None for one in answer.topic_partitions)

        wait_until(f"{group} is reset", done, STEP_SECONDS_MAX, 1.0)
        self.say(f"offsets of `{group}` were reset by commit")


@contextmanager
def living(folder: Path, seconds: float, say: Say, partitions: int = 8) -> Iterator[Life]:
    """The cluster with everything done and the remaining members still there."""
    settings = {"group.initial.rebalance.delay.ms": "500"}
    with MusterCluster(folder, partitions=partitions, settings=settings) as cluster:
        say(f"three replicas at {cluster.bootstrap}")
        life = Life(cluster, say)
        try:
            life.begin()
            life.live(seconds)
            yield life
        except BaseException:
            said = cluster.output.read_text(errors="replace")[-LOG_CHARACTERS_SHOWN:]
            ready = [cluster.probe(replica, "/readyz") for replica in range(cluster.replicas)]
            say(f"/readyz: {ready}; the replicas said\n{said}")
            raise
        finally:
            life.stop()
