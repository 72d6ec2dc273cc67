"""Coordination alone (`topics.mode=none`): processes of `docs/examples/workers_over_files.py` share plain files by a
protocol type and metadata of their own, and go on at committed positions. Files grow all the time, a new one appears;
a worker leaves, the group's coordinator is killed, a worker is killed. Every line is printed, and only what the killed
one had printed after its last commit is printed twice. What the group shares is asked of the coordinator, not of the
workers. What it does not show: that topics are refused, see `api/test_create_topics.py` and `api/test_topic_stores.py`.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cluster import MusterCluster, wait_until
from tests.raw_client import Disconnected, RawClient, request
from tests.raw_group import (
    ILLEGAL_GENERATION,
    RETRIABLE,
    UNKNOWN_MEMBER,
    Refused,
    commit,
    fetch,
    find_coordinator,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "workers_over_files.py"
GROUP = "readers"
NAMES = [f"{letter}.log" for letter in "abcdef"]
LATE = "late.log"
NO_TOPIC = "two words.log"
SESSION_TIMEOUT_MS = 10_000
"""After which a killed worker's files are shared anew. Nobody else may be silent for so long, or lines come twice."""
LINES_FIRST = 300
LINES_BURST = 5_000
LINES_AT_ONCE = 100
"""The example's: more than that is never printed without a commit."""


class Line(NamedTuple):
    name: str
    number: int
    text: str


class Worker:
    """One process of the example."""

    def __init__(self, bootstrap: str, logs: Path, folder: Path, number: int) -> None:
        self.out, self.said = folder / f"worker-{number}.out", folder / f"worker-{number}.err"
        command = [sys.executable, str(EXAMPLE), "--bootstrap", bootstrap, "--group", GROUP, str(logs)]
        command += ["--session-timeout-ms", str(SESSION_TIMEOUT_MS)]
        with self.out.open("wb") as out, self.said.open("wb") as said:
            self.process = subprocess.Popen(command, stdout=out, stderr=said)

    def printed(self) -> list[Line]:
        """Without a last line that is not whole: a killed process may have got no further."""
        whole = self.out.read_text().rpartition("\n")[0].splitlines()
        return [Line(name, int(number), text) for name, number, text in (line.split(" ", 2) for line in whole)]

    def leave(self) -> None:
        self.process.terminate()
        assert self.process.wait(20) == 0, self.said.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Logs:
    """Files that grow by a line each, in two writes, so that half a line is often their end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.lines: dict[str, int] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._grow)
        for name in NAMES:
            self.add(name, LINES_FIRST)

    def add(self, name: str, lines: int) -> None:
        with self._lock, (self.folder / name).open("a") as file:
            for _ in range(lines):
                number = self.lines[name] = self.lines.get(name, 0) + 1
                file.write(f"line {number} of ")
                file.flush()
                file.write(f"{name}\n")

    def _grow(self) -> None:
        while not self._stopped.wait(0.02):
            for name in tuple(self.lines):
                self.add(name, 1)

    @contextlib.contextmanager
    def growing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()

    def all(self) -> set[Line]:
        return {
            Line(name, number, f"line {number} of {name}")
            for name, lines in self.lines.items()
            for number in range(1, lines + 1)
        }


class Member(NamedTuple):
    member: str
    files: list[str]


class World:
    def __init__(self, cluster: MusterCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.logs = Logs(folder / "logs")
        self.workers: list[Worker] = []

    def start_worker(self) -> Worker:
        self.workers.append(Worker(self.cluster.bootstrap, self.logs.folder, self.folder, len(self.workers)))
        return self.workers[-1]

    def connect(self) -> RawClient:
        _, host, port = find_coordinator(self.cluster.bootstrap, GROUP)
        return RawClient(host, port)

    def described(self) -> Any:
        with self.connect() as client:
            return client.call(request(15, 4, groups=[GROUP], include_authorized_operations=False)).groups[0]

    def members(self) -> dict[int, Member]:
        """By the process' id; empty while there is a rebalance, or no coordinator."""
        try:
            group = self.described()
        except Disconnected:
            return {}
        if group.error_code or group.group_state != "Stable":
            return {}
        assert (group.protocol_type, group.protocol_data) == ("files", "fewest")
        return {
            int(json.loads(one.member_metadata)["worker"].rpartition("-")[2]): Member(
                one.member_id, json.loads(one.member_assignment)["files"]
            )
            for one in group.members
        }

    def shared(self, workers: list[Worker], sizes: list[int]) -> dict[int, Member]:
        """Wait until these workers have all files among them, each in one share, and as many as `sizes`."""

        def as_wanted() -> dict[int, Member]:
            found = self.members()
            if set(found) != {worker.process.pid for worker in workers}:
                return {}
            names = [name for member in found.values() for name in member.files]
            balanced = sorted(len(member.files) for member in found.values()) == sizes
            return found if balanced and sorted(names) == sorted(self.logs.lines) else {}

        found: dict[int, Member] = wait_until(f"shares of {sizes}", as_wanted, 60)
        return found

    def printed(self) -> list[Line]:
        return [line for worker in self.workers for line in worker.printed()]

    def reads_on(self) -> None:
        """Wait until what is in the files now, and every file has some more, is printed."""
        wanted = dict(self.logs.lines)

        def further() -> bool:
            reached = {line.name: line.number for line in sorted(self.printed())}
            return all(reached.get(name, 0) > lines for name, lines in wanted.items())

        wait_until("every file is read further", further, 30)

    def asked(self, question: Callable[[RawClient], dict[int, Any]]) -> Any:
        """The answer for partition 0. The coordinator may move while it is asked."""

        def ask() -> list[Any]:
            try:
                with self.connect() as client:
                    answer = question(client)[0]
            except (Disconnected, Refused):
                return []
            return [] if answer in RETRIABLE else [answer]

        return wait_until("the coordinator answers", ask, 20)[0]

    def committed(self, name: str) -> tuple[int, int]:
        """(bytes, lines)"""
        offset, lines, error = self.asked(lambda client: fetch(client, GROUP, name, [0]))
        assert error == 0
        return offset, int(lines)

    def commit(self, name: str, generation: int, member: str) -> int:
        """The error code."""
        return int(self.asked(lambda client: commit(client, GROUP, name, {0: 1}, generation, member)))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    settings = {"topics.mode": "none", "group.initial.rebalance.delay.ms": "0"}
    with MusterCluster(tmp_path / "data", replicas=3, partitions=4, settings=settings) as cluster:
        made = World(cluster, tmp_path)
        try:
            yield made
        finally:
            for worker in made.workers:
                worker.kill()


def killed_coordinator(world: World) -> int:
    """The replica that was the group's coordinator; it is dead, and there is another."""
    before, _, _ = find_coordinator(world.cluster.bootstrap, GROUP)
    world.cluster.kill(before)
    wait_until("another coordinator", lambda: find_coordinator(world.cluster.bootstrap, GROUP)[0] != before, 20)
    return before


def test_workers_share_files_and_lose_no_line(world: World) -> None:
    (world.logs.folder / NO_TOPIC).write_text("never read\n")
    workers = [world.start_worker() for _ in range(3)]
    with world.logs.growing():
        world.shared(workers, [2, 2, 2])
        world.reads_on()
        world.logs.add(LATE, LINES_FIRST)
        found = world.shared(workers, [2, 2, 3])
        world.reads_on()

        leaver = workers.pop(0)
        leaver.leave()
        left = {one.member_id for one in world.described().members}
        assert found[leaver.process.pid].member not in left, "it left the group, no time-out was needed"
        world.shared(workers, [3, 4])
        world.reads_on()

        dead = killed_coordinator(world)
        world.reads_on()
        world.shared(workers, [3, 4])
        world.cluster.start_replica(dead)
        assert not repeated(world), "nobody was killed yet"

        victim, survivor = workers
        lost = world.shared(workers, [3, 4])[victim.process.pid]
        generation = generation_of(survivor)
        committed = killed_while_reading(world, victim, lost.files)
        world.shared([survivor], [7])
        for name in lost.files:
            assert world.commit(name, generation, lost.member) == UNKNOWN_MEMBER, "a commit that comes late"
        world.reads_on()
    check_what_was_lost(victim, survivor, committed)
    check_the_end(world, survivor)
    assert repeated(world) <= {line for line in victim.printed() if line.name in lost.files}


def killed_while_reading(world: World, victim: Worker, names: list[str]) -> dict[str, int]:
    """How many lines of each of its files were committed then."""
    before = len(victim.printed())
    for name in names:
        world.logs.add(name, LINES_BURST)
    wait_until("it reads them", lambda: len(victim.printed()) > before + LINES_AT_ONCE, 20, every=0.01)
    victim.kill()
    return {name: world.committed(name)[1] for name in names}


def repeated(world: World) -> set[Line]:
    return {line for line, times in Counter(world.printed()).items() if times > 1}


def generation_of(worker: Worker) -> int:
    return int(worker.said.read_text().rpartition("generation ")[2].partition(":")[0])


def check_what_was_lost(victim: Worker, heir: Worker, committed: dict[str, int]) -> None:
    """The heir went on at the last commit: it left out no line, and repeated what was printed since."""
    for name, lines in committed.items():
        reached = max((line.number for line in victim.printed() if line.name == name), default=lines)
        first = next(line.number for line in heir.printed() if line.name == name and line.number > lines)
        assert lines < first <= reached + 1, (name, lines, first, reached)
        assert reached - lines <= LINES_AT_ONCE, (name, lines, reached)


def check_the_end(world: World, last: Worker) -> None:
    """All lines are printed and committed; a commit of the generation before is refused; a later worker goes on."""
    wanted = world.logs.all()
    wait_until("every line is printed", lambda: set(world.printed()) >= wanted, 30)
    assert set(world.printed()) == wanted
    member = world.shared([last], [7])[last.process.pid].member
    assert world.commit(NAMES[0], generation_of(last) - 1, member) == ILLEGAL_GENERATION
    last.leave()
    for name, lines in world.logs.lines.items():
        assert world.committed(name) == (os.stat(world.logs.folder / name).st_size, lines)
    assert f"{NO_TOPIC!r} is not read: a topic's name has" in last.said.read_text()

    world.logs.add(NAMES[0], 1)
    later = world.start_worker()
    wait_until("the new line", later.printed, 30)
    later.leave()
    number = world.logs.lines[NAMES[0]]
    assert later.printed() == [Line(NAMES[0], number, f"line {number} of {NAMES[0]}")]
