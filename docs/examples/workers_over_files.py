"""Workers that share plain files: a consumer group without topics, for logs that no broker has.

    python docs/examples/workers_over_files.py --bootstrap localhost:9092 --group readers FOLDER

Problem: some processes shall read the `*.log` files of a folder together, each line once, and go on where others ended.
A consumer group does that for partitions; but these logs are files, and never in a topic.

How it works: Kafka's group protocol does not know what a group shares. Workers join under a protocol type of their own,
`files`, with JSON as metadata: who they are and which files they see. The coordinator hands all of it to one of them,
the leader, which shares the files; each gets its share from SyncGroup. kafka-python's `BaseCoordinator` joins, rejoins,
looks up the coordinator and sends heartbeats in a thread of its own; here is what the group is about. A worker prints
`FILE NUMBER LINE` and then commits its position: OffsetCommit of partition 0 of a topic that has the file's name and
does not exist, the offset in bytes, the number of lines as metadata. Muster with `topics.mode=none` takes commits of
any topic. A commit names generation and member, so that one of a worker that lost its files is refused. The leader
looks for new files every second, and rejoins if there are some. SIGTERM: commit, leave the group, exit 0. Each line is
printed at least once, and exactly once unless a worker is killed, or silent for a session timeout: what it printed
after its last commit comes again.

What it does not do: keep a file where it was in a rebalance, notice that a file was cut off or replaced (files grow),
print a line before its end is written, or keep positions for ever: a group without workers loses them after
`offsets.retention.minutes`. Hosts that share a group see the same folder: a name is one file.
"""

import argparse
import itertools
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from kafka import errors
from kafka.coordinator.base import BaseCoordinator
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest

REQUEST_TIMEOUT_MS = 4_000
LEAVE_TIMEOUT_MS = 6_000
REBALANCE_TIMEOUT_MS = 30_000
"""So long a rebalance waits for a worker to commit and to rejoin; a coordinator is asked again for as long."""
LINES_AT_ONCE = 100
"""Of each file, between two commits."""
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
DEPOSED = (errors.IllegalGenerationError, errors.UnknownMemberIdError, errors.RebalanceInProgressError)
AWAY = (errors.RetriableError, errors.UnknownBrokerIdError)
"""The coordinator has moved, loads, or is not reached."""


class Position(NamedTuple):
    """Of what is printed; the offset is in bytes."""

    offset: int
    lines: int


def say(text: str) -> None:
    print(f"workers_over_files: {text}", file=sys.stderr, flush=True)


def share(seen: dict[str, list[str]]) -> dict[str, list[str]]:
    """Each file to the member with the fewest of those that see it. Who leads next would share alike."""
    shares: dict[str, list[str]] = {member: [] for member in sorted(seen)}
    for name in sorted(set().union(*seen.values())):
        fewest = min((member for member in shares if name in seen[member]), key=lambda member: len(shares[member]))
        shares[fewest].append(name)
    return shares


class Worker(BaseCoordinator):
    """A member of the group. The hooks below run in kafka-python's thread, all else in the caller's."""

    def __init__(
        self,
        connections: KafkaConnectionManager,
        net: NetworkSelector,
        group: str,
        folder: Path,
        session_timeout_ms: int,
    ) -> None:
        super().__init__(
            KafkaNetClient(net, connections),
            group_id=group,
            api_version=connections.broker_version,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=session_timeout_ms // 6,
            max_poll_interval_ms=REBALANCE_TIMEOUT_MS,
        )
        self.connections, self.group, self.folder = connections, group, folder
        self.mine: list[str] = []
        self.shared: set[str] = set()
        self.generation, self.member, self.leads = -1, "", False  # as joined: a heartbeat may have reset the base's
        self.refused: set[str] = set()
        self.printed: dict[str, Position] = {}
        self.committed: dict[str, Position] = {}

    # --- what BaseCoordinator asks

    def protocol_type(self):
        return "files"

    def group_protocols(self):
        about = {"worker": f"{socket.gethostname()}-{os.getpid()}", "files": self.files_here()}
        return [("fewest", json.dumps(about).encode())]

    def _perform_assignment(self, leader_id, protocol, members):
        seen = {member.member_id: json.loads(member.metadata)["files"] for member in members}
        self.shared = set().union(*seen.values())
        return {
            member: json.dumps({"leader": leader_id, "files": files}).encode() for member, files in share(seen).items()
        }

    async def _on_join_complete_async(self, generation, member_id, protocol, member_assignment_bytes):
        told = json.loads(member_assignment_bytes or b'{"leader": "", "files": []}')
        self.generation, self.member, self.leads = generation, member_id, told["leader"] == member_id
        self.mine = told["files"]
        say(f"generation {generation}: reads {' '.join(self.mine) or 'nothing'}")

    # --- the coordinator's answers

    def ask(self, request):
        """An answer without an error. A coordinator that has moved is looked up again, within bounds."""
        deadline_s, pause_s = time.monotonic() + REBALANCE_TIMEOUT_MS / 1000, 0.05
        last: Exception = errors.CoordinatorNotAvailableError()
        while time.monotonic() < deadline_s:
            try:
                if self.ensure_coordinator_ready(timeout_ms=1000):
                    answer = self.connections.run(self.connections.send, request, self.coordinator())
                    codes = [partition.error_code for topic in answer.topics for partition in topic.partitions]
                    for code in filter(None, [getattr(answer, "error_code", 0), *codes]):
                        raise errors.for_code(code)()
                    return answer
            except AWAY as error:
                last = error
                self.coordinator_dead(error)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 1)
        raise last

    def commit(self) -> bool:
        """False: somebody else may have my files; what I printed since my last commit may be printed again."""
        moved = {name: at for name, at in self.printed.items() if at != self.committed[name]}
        if not moved:
            return True
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        position = topic.OffsetCommitRequestPartition
        positions = {
            name: position(partition_index=0, committed_offset=at.offset, committed_metadata=str(at.lines))
            for name, at in moved.items()
        }
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member,
            topics=[topic(name=name, partitions=[at]) for name, at in positions.items()],
            max_version=9,  # from 10 on topics have ids, and these have none
        )
        try:
            self.ask(request)
        except (*DEPOSED, *AWAY) as error:
            say(f"generation {self.generation}: commit refused, {type(error).__name__}: {' '.join(moved)}")
            self.printed = {}
            self.request_rejoin()
            return False
        self.committed |= moved
        return True

    def fetch(self) -> bool:
        """Go on where the last owners committed. False: not known."""
        topic = OffsetFetchRequest.OffsetFetchRequestTopic
        topics = [topic(name=name, partition_indexes=[0]) for name in self.mine]
        request = OffsetFetchRequest(group_id=self.group, topics=topics, require_stable=False, max_version=7)
        self.printed = {}
        try:
            for one in self.ask(request).topics if topics else ():
                at = one.partitions[0]
                self.printed[one.name] = Position(max(at.committed_offset, 0), int(at.metadata or 0))
        except AWAY:
            self.request_rejoin()
        self.committed = dict(self.printed)
        return not self.need_rejoin()

    # --- files

    def files_here(self) -> list[str]:
        """The folder's logs; those that cannot be a topic are refused, once in words."""
        names = sorted(path.name for path in self.folder.glob("*.log") if path.is_file())
        for name in names:
            if not TOPIC.fullmatch(name) and name not in self.refused:
                self.refused.add(name)
                say(f"{name!r} is not read: a topic's name has at most 249 letters, digits, '.', '_' and '-'")
        return [name for name in names if TOPIC.fullmatch(name)]

    def read(self) -> bool:
        """Print what each file has more, in part if it is much. False: nothing."""
        found, lines = dict(self.printed), []
        for name, (offset, number) in self.printed.items():
            try:
                with (self.folder / name).open("rb") as file:
                    file.seek(offset)
                    for line in itertools.islice(file, LINES_AT_ONCE):
                        if not line.endswith(b"\n"):
                            break
                        offset, number = offset + len(line), number + 1
                        lines.append(f"{name} {number} ".encode() + line)
            except FileNotFoundError:
                continue
            found[name] = Position(offset, number)
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.buffer.flush()
        self.printed = found
        return bool(lines)

    # --- life

    def work(self, stopped: threading.Event) -> bool:
        """Until `stopped`. True: all that was printed is committed."""
        done, look_s = True, 0.0
        while not stopped.is_set():
            self.poll_heartbeat()
            if self.need_rejoin() and not (self.ensure_active_group(timeout_ms=1000) and self.fetch()):
                continue
            if self.leads and time.monotonic() > look_s:
                look_s = time.monotonic() + 1
                if set(self.files_here()) - self.shared:
                    self.request_rejoin()
            more = self.read()
            done = self.commit()  # before files are given up: the next owner goes on from here
            if not more:
                stopped.wait(0.1)
        self.close(timeout_ms=LEAVE_TIMEOUT_MS)  # leaves the group
        return done


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--group", required=True)
    parser.add_argument("--session-timeout-ms", type=int, default=45_000, help="of silence, then its files are others'")
    parser.add_argument("folder", type=Path)
    told = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    net = NetworkSelector()
    connections = KafkaConnectionManager(
        net, bootstrap_servers=told.bootstrap.split(","), request_timeout_ms=REQUEST_TIMEOUT_MS
    )
    net.start()
    try:
        connections.bootstrap(timeout_ms=REBALANCE_TIMEOUT_MS)
        worker = Worker(connections, net, told.group, told.folder, told.session_timeout_ms)
        return 0 if worker.work(stopped) else 1
    except errors.KafkaError as error:
        say(f"ends: {type(error).__name__}: {error}")
        return 1
    finally:
        net.stop(timeout_ms=1000)


if __name__ == "__main__":
    sys.exit(main())
