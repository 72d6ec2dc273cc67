"""Kafka Connect, distributed: three workers keep their state in compacted topics here, copy files into a topic with
exactly-once source support and the topic into a file, while a worker and a broker are killed and all workers are
restarted one after the other. Then a connector's offsets are read, altered and removed by Connect's own REST interface.

The oracle is the input: each line stands in the topic once and in order, read committed. The sink promises at least
once: what it wrote since its last commit may be in the copy again, as a whole and in order, and nothing is missing.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.applications.clusters import cluster_for
from tests.applications.connect import SETTLES_S_MAX, Workers, connect
from tests.applications.reading import read_committed
from tests.cluster import wait_until

pytestmark = [pytest.mark.applications, pytest.mark.timeout(3_000)]

TOPIC = "lines"
SOURCES = ("a", "b", "c")
INTERNAL = {"connect-offsets": 25, "connect-configs": 1, "connect-status": 5}
WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


class Lines:
    """Appends lines to the sources' files until the block ends."""

    def __init__(self, folder: Path) -> None:
        self.files = {name: folder / f"{name}.txt" for name in SOURCES}
        self._written = dict.fromkeys(SOURCES, 0)
        for file in self.files.values():
            file.touch()

    def write(self, lines: int) -> None:
        for name, file in self.files.items():
            first = self._written[name]
            with file.open("a", encoding="utf-8") as out:
                out.writelines(f"{name}-{number}\n" for number in range(first, first + lines))
            self._written[name] += lines

    @contextmanager
    def growing(self) -> Iterator[None]:
        ended = threading.Event()

        def grow() -> None:
            while not ended.wait(0.2):
                self.write(10)

        thread = threading.Thread(target=grow, name="lines")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def expected(self) -> dict[str, list[str]]:
        return {name: file.read_text("utf-8").split() for name, file in self.files.items()}


def source(name: str, file: Path) -> dict[str, Any]:
    return {
        "name": f"source-{name}",
        "config": {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(file),
            "topic": TOPIC,
            "exactly.once.support": "required",
            "topic.creation.default.replication.factor": "-1",
            "topic.creation.default.partitions": "1",
        },
    }


def sink(file: Path) -> dict[str, Any]:
    config = {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max": "1"}
    return {"name": "sink", "config": {**config, "file": str(file), "topics": TOPIC}}


def by_source(lines: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in SOURCES}
    for line in lines:
        found[line[0]].append(line)
    return found


def copied(copy: Path) -> dict[str, list[str]]:
    return {name: without_repetitions(lines) for name, lines in by_source(copy.read_text("utf-8").split()).items()}


def committed(bootstrap: str) -> dict[str, list[str]]:
    return by_source([value.decode() for _, _, _, value in read_committed(bootstrap, TOPIC)])


def difference(found: dict[str, list[str]], wanted: dict[str, list[str]]) -> str:
    """ "" if they are equal, else what is lost, doubled or out of order of each source."""
    told = []
    for name, lines in wanted.items():
        have = found[name]
        if have != lines:
            lost, doubled = sorted(set(lines) - set(have)), len(have) - len(set(have))
            told.append(f"{name}: {len(have)} of {len(lines)}, {doubled} doubled, {len(lost)} lost: {lost[:5]}")
    return "; ".join(told)


def without_repetitions(lines: list[str]) -> list[str]:
    """The lines of one source in a copy that may have gone back some lines: each where it came first. One that came
    before its predecessor stays where it is, and shows."""
    return list(dict.fromkeys(lines))


def wait_copied(
    what: str, read: Callable[[], dict[str, list[str]]], wanted: dict[str, list[str]], workers: Workers
) -> None:
    """`read` gives all lines once and in order; more than are wanted end it at once."""

    def copied() -> bool:
        found = read()
        return all(len(found[name]) >= len(lines) for name, lines in wanted.items())

    try:
        wait_until(what, copied, SETTLES_S_MAX, 1)
    except AssertionError as error:
        raise AssertionError(f"{error}: {difference(read(), wanted)}\n{workers.told()}") from None
    assert difference(read(), wanted) == ""


def test_files_are_copied_once_though_workers_and_brokers_go(tmp_path: Path) -> None:
    with cluster_for(tmp_path / "data") as cluster, connect(tmp_path, cluster.bootstrap, WORKER) as workers:
        bootstrap = cluster.bootstrap
        lines, copy = Lines(tmp_path), tmp_path / "copy.txt"
        names = (*(f"source-{name}" for name in SOURCES), "sink")
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, -1)])[TOPIC].result(30)
        for name, file in lines.files.items():
            workers.ask("PUT", f"/connectors/source-{name}/config", source(name, file)["config"])
        workers.ask("PUT", "/connectors/sink/config", sink(copy)["config"])
        workers.wait_running(names)
        internal_topics_are_compacted(admin)

        with lines.growing():
            wait_until("lines are copied", lambda: copy.exists() and copy.stat().st_size > 2_000, SETTLES_S_MAX, 0.5)
            sinks = workers.worker_of("sink")
            victim = next(w for w in map(workers.worker_of, names[:-1]) if w != sinks)
            dead = next(one for one in workers.all if one.id == victim)
            dead.kill()
            workers.wait_running(names)
            dead.start()
            cluster.kill(1)
            dead.wait_ready()
            cluster.start_replica(1)
            workers.wait_running(names)
            for one in workers.all:
                one.stop()
                one.start()
                one.wait_ready()
                workers.wait_running(names)
        lines.write(100)
        wanted = lines.expected()
        wait_copied("all is in the topic", lambda: committed(bootstrap), wanted, workers)
        wait_copied("all is in the copy", lambda: copied(copy), wanted, workers)
        offsets_are_told_altered_and_removed(workers, lines, copy, bootstrap)


def internal_topics_are_compacted(admin: AdminClient) -> None:
    for name, partitions in INTERNAL.items():
        topic = admin.list_topics(name, timeout=20).topics[name]
        assert (len(topic.partitions), len(topic.partitions[0].replicas)) == (partitions, 3), name
        resource = ConfigResource(ResourceType.TOPIC, name)
        assert admin.describe_configs([resource])[resource].result(20)["cleanup.policy"].value == "compact", name


def offsets_are_told_altered_and_removed(workers: Workers, lines: Lines, copy: Path, bootstrap: str) -> None:
    """KIP-875: a source's offset is its file's size, the sink's the end of the topic; a source without one begins anew,
    a sink at what it was altered to."""
    size = lines.files["a"].stat().st_size

    def told() -> bool:
        (entry,) = workers.ask("GET", "/connectors/source-a/offsets")["offsets"]
        return bool(entry["offset"]["position"] == size)

    wait_until("the source's offset is its file's size", told, SETTLES_S_MAX, 1)
    end = read_committed(bootstrap, TOPIC)[-1][1]

    def sunk() -> bool:
        (entry,) = workers.ask("GET", "/connectors/sink/offsets")["offsets"]
        return bool(entry["offset"]["kafka_offset"] > end)

    wait_until("the sink's offset is behind the last record", sunk, SETTLES_S_MAX, 1)
    for name in ("source-a", "sink"):
        workers.ask("PUT", f"/connectors/{name}/stop")
        wait_until(f"{name} stops", lambda name=name: not workers.status(name)["tasks"], SETTLES_S_MAX, 1)
    workers.ask("DELETE", "/connectors/source-a/offsets")
    assert workers.ask("GET", "/connectors/source-a/offsets") == {"offsets": []}
    back = {"partition": {"kafka_topic": TOPIC, "kafka_partition": 0}, "offset": {"kafka_offset": 0}}
    workers.ask("PATCH", "/connectors/sink/offsets", {"offsets": [back]})
    copy.unlink()
    for name in ("source-a", "sink"):
        workers.ask("PUT", f"/connectors/{name}/resume")
    twice = lines.expected()
    twice["a"] = twice["a"] * 2
    wait_copied("the source began anew", lambda: committed(bootstrap), twice, workers)
    wait_copied("the sink began at 0", lambda: copied(copy), lines.expected(), workers)
