"""Instances of `StreamsJoins.java`, each with a state folder and an identity that outlive its processes."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import java_tools, orphans
from tests.cluster import wait_until

STREAMS = f"org.apache.kafka:kafka-streams:{java_tools.KAFKA_VERSION}"
LOGGER = "org.slf4j:slf4j-simple:1.7.36"
QUIET = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.streams.kstream.internals=error"
"""Else each record without a key or a value is a warning."""
SOURCE = Path(__file__).parents[1] / "clients" / "members" / "java" / "StreamsJoins.java"
SERDE = "org.apache.kafka.common.serialization.Serdes$StringSerde"
THREADS = 3
SESSION_S = 30
"""A static member that is back within it keeps its place."""
ENDS_S_MAX = 120
ANSWERS_S_MAX = 120


class Instance:
    """One life after the other under the same `group.instance.id`."""

    def __init__(self, folder: Path, name: str, shape: Sequence[int], properties: Mapping[str, str]) -> None:
        """`shape`: what the program takes before its properties."""
        self.name = name
        self._state = folder / f"state-{name}"
        self._said = folder / f"{name}.txt"
        self._log = folder / f"{name}.log"
        wanted = {
            "state.dir": str(self._state),
            "group.instance.id": name,
            "num.stream.threads": str(THREADS),
            "num.standby.replicas": "1",
            "commit.interval.ms": "200",
            "statestore.cache.max.bytes": "0",
            "session.timeout.ms": str(SESSION_S * 1_000),
            "heartbeat.interval.ms": "1000",
            "auto.offset.reset": "earliest",
            "default.key.serde": SERDE,
            "default.value.serde": SERDE,
            **properties,
        }
        class_path = java_tools.compile_java([SOURCE], java_tools.classpath(STREAMS, LOGGER))
        self._command = [java_tools.java_command(), *java_tools.JVM_SMALL, "-Xmx256m", QUIET, "-cp", class_path]
        self._command += ["StreamsJoins", *map(str, shape), *(f"{key}={value}" for key, value in wanted.items())]
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0
        """Where in `_said` the present life begins."""

    def start(self) -> None:
        assert self._process is None
        self._began = self._said.stat().st_size if self._said.exists() else 0
        with self._said.open("ab") as out, self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=out, stderr=log)
        orphans.watch(self._process.pid)

    def kill(self) -> None:
        """SIGKILL: no commit, no word to the group."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def close(self) -> None:
        """It commits and closes its stores, and stays a member as static members do."""
        assert self._process is not None
        mark = self._said.stat().st_size
        try:
            self._process.communicate(b"close\n", timeout=ENDS_S_MAX)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end:\n{self.told()}") from None
        self._process = None
        assert "closed" in self._lines(mark), self.told()

    def forget(self) -> None:
        """Its disk is lost: RocksDB, its checkpoints and its process id."""
        assert self._process is None
        assert self._state.is_dir()
        shutil.rmtree(self._state)

    def runs(self) -> bool:
        """Whether the last state that this life told is RUNNING."""
        states = [line for line in self._lines(self._began) if line.startswith("state ")]
        return states[-1:] == ["state RUNNING"]

    def ask(self, command: str, answer: str) -> list[str]:
        """What it says to a command, up to and with the line that begins with `answer`."""
        assert self._process is not None
        assert self._process.stdin is not None
        mark = self._said.stat().st_size
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()

        def answered() -> list[str]:
            lines = self._lines(mark)
            ends = [number for number, line in enumerate(lines) if line.startswith(answer)]
            return lines[: ends[0] + 1] if ends else []

        found: list[str] = wait_until(f"{self.name} answers {command}", answered, ANSWERS_S_MAX)
        return found

    def failures(self) -> list[str]:
        """Exceptions that no thread caught, in all of its lives."""
        return [line for line in self._lines(0) if line.startswith("failed")]

    def told(self) -> str:
        said = self._lines(0)[-20:]
        return "\n".join([f"--- {self.name}", *said, self._log.read_text(errors="replace")[-4_000:]])

    def _lines(self, mark: int) -> list[str]:
        """Whole lines from a place on."""
        with self._said.open("rb") as said:
            said.seek(mark)
            return said.read().decode().split("\n")[:-1]


@contextmanager
def instances(*several: Instance) -> Iterator[None]:
    for one in several:
        one.start()
    try:
        yield
    finally:
        for one in several:
            one.kill()


def dumped(several: Sequence[Instance], store: str, partitions: int) -> dict[str, str] | None:
    """All entries of a store's active tasks; None unless each partition is active on one instance, and on one only."""
    entries: list[tuple[str, str]] = []
    here: list[int] = []
    for one in several:
        *lines, end = one.ask(f"dump {store}", f"end {store}")
        here += map(int, end.split()[2:])
        for line in lines:
            if line.startswith("entry\t"):
                _, _, key, value = line.split("\t")
                entries.append((key, value))
    if sorted(here) != list(range(partitions)):
        return None
    found = dict(entries)
    assert len(found) == len(entries), f"a key of {store} is in two partitions"
    return found


def tasks(several: Sequence[Instance]) -> tuple[int, int]:
    """(active, standby) of all threads."""
    active = standby = 0
    for one in several:
        _, here, copies = one.ask("tasks", "tasks ")[-1].split()
        active, standby = active + int(here), standby + int(copies)
    return active, standby
