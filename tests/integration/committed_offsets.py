"""Committed offsets of a cluster, by kafka-python's schemas on a test's own connections: nothing of the commands."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tests.cluster import wait_until
from tests.integration.second_client import SecondClient

PATIENCE_S = 60.0
MOVES = {14, 15, 16}
"""A coordinator that loads, is not available, or is another one."""
NAMES_MAX = 20
"""In one FindCoordinator."""


class Offset(NamedTuple):
    offset: int
    metadata: str = ""
    leader_epoch: int = -1


Offsets = Mapping[tuple[str, int], Offset]
"""(topic, partition) -> what is committed."""


class CommittedOffsets:
    """Those of the cluster that listens on `port` of loopback; use as a context manager."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._clients: dict[int, SecondClient] = {}
        self._of_group: dict[str, int] = {}

    def __enter__(self) -> "CommittedOffsets":
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()

    def commit(self, group: str, offsets: Offsets) -> set[int]:
        """As a simple consumer; the error codes; none: the connection was lost."""
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, partition), one in offsets.items():
            part = {
                "partition_index": partition,
                "committed_offset": one.offset,
                "committed_leader_epoch": one.leader_epoch,
                "committed_metadata": one.metadata,
            }
            topics.setdefault(topic, []).append(part)
        answer = self._ask(
            group,
            "OffsetCommit",
            8,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": topic, "partitions": parts} for topic, parts in topics.items()],
        )
        if answer is None:
            return set()
        codes = {one.error_code for topic in answer.topics for one in topic.partitions}
        if codes & MOVES:
            self._of_group.pop(group)
        return codes

    def set(self, group: str, offsets: Offsets) -> None:
        """Commit, whatever coordinator comes or goes."""
        wait_until(f"offsets of {group[:50]}", lambda: self.commit(group, offsets) == {0}, PATIENCE_S, every=0.2)

    def read(self, group: str) -> dict[tuple[str, int], Offset]:
        """Whatever coordinator comes or goes."""
        found: Any = wait_until(f"offsets of {group[:50]}", lambda: self._read(group), PATIENCE_S, every=0.2)
        return {
            (topic.name, one.partition_index): Offset(one.committed_offset, one.metadata, one.committed_leader_epoch)
            for topic in found.topics
            for one in topic.partitions
        }

    def _read(self, group: str) -> Any:
        asked = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}]
        answer = self._ask(group, "OffsetFetch", 8, groups=asked, require_stable=True)
        if answer is None:
            return None
        (found,) = answer.groups
        if found.error_code in MOVES:
            self._of_group.pop(group)
            return None
        assert found.error_code == 0, found
        return found

    def read_all(self, groups: Iterable[str]) -> dict[str, dict[tuple[str, int], Offset]]:
        names = list(groups)
        self.find(names)
        return {name: self.read(name) for name in names}

    def find(self, groups: Iterable[str]) -> None:
        """Ask for many coordinators at once."""
        names = [name for name in groups if name not in self._of_group]
        for start in range(0, len(names), NAMES_MAX):
            some = names[start : start + NAMES_MAX]
            wait_until("coordinators", lambda some=some: self._found(some), PATIENCE_S, every=0.2)

    def _found(self, names: list[str]) -> bool:
        answer = self._client(self._port).ask("FindCoordinator", 4, key_type=0, coordinator_keys=names)
        told = {one.key: (one.error_code, one.port) for one in answer.coordinators}
        if any(told[name][0] for name in names):
            return False
        self._of_group.update({name: told[name][1] for name in names})
        return True

    def _ask(self, group: str, api: str, version: int, **fields: Any) -> Any:
        """The coordinator's answer. None: its connection was lost, as when it was killed."""
        client = self._coordinator(group)
        try:
            return client.ask(api, version, **fields)
        except (OSError, AssertionError):
            self.__exit__()
            self._clients.clear()
            self._of_group.clear()
            return None

    def _coordinator(self, group: str) -> SecondClient:
        self.find([group])
        return self._client(self._of_group[group])

    def _client(self, port: int) -> SecondClient:
        if port not in self._clients:
            self._clients[port] = SecondClient(port)
        return self._clients[port]
