"""Clients of groups without members: they commit offsets with generation -1 and read them back.

Several of them share a group and its keys, so that writes and reads of one key overlap. Every committed row carries a
number that no other row of the run carries; offset and leader epoch follow from it.
"""

from tests.sim import frames
from tests.sim.client import RETRIABLE, Client, Steps
from tests.sim.cluster import Cluster
from tests.sim.history import CommitAsk, FetchAsk

Row = tuple[str, int, int, int, str]


def row(cluster: Cluster, topic: str, partition: int, text: str = "") -> Row:
    """A row to commit that nobody else commits."""
    uid = cluster.history.uid()
    return topic, partition, uid, uid % 5 - 1, f"u{uid}{text}"


class Committer(Client):
    """`pause_ms`: longest wait between two operations."""

    def __init__(
        self, cluster: Cluster, name: str, group: str, *, keys: list[tuple[str, int]], pause_ms: int, reads: float = 0.4
    ) -> None:
        super().__init__(cluster, name)
        self.group = group
        self.keys = keys
        self.pause_ms = pause_ms
        self.reads = reads
        self.acknowledged = 0
        self.last_success_us = 0

    def steps(self) -> Steps:
        while True:
            yield from self.sleep(self.rand.uniform(1, self.pause_ms))
            line = yield from self.coordinator(self.group)
            if self.rand.random() < self.reads:
                yield from self._read(line)
            else:
                yield from self._commit(line)

    def _some_keys(self) -> list[tuple[str, int]]:
        return sorted(self.rand.sample(self.keys, self.rand.randint(1, min(3, len(self.keys)))))

    def _commit(self, line) -> Steps:  # type: ignore[no-untyped-def]
        text = "x" * self.rand.randint(0, 600) if self.rand.random() < 0.05 else ""
        rows = tuple(row(self.cluster, *key, text) for key in self._some_keys())
        ask = CommitAsk(-1, "", None, rows)
        request = self.dialect.commit(self.group, -1, "", None, rows)
        codes = yield from self.ask(line, frames.COMMIT, self.group, ask, request)
        if codes is None:
            return
        assert codes.keys() == {(r[0], r[1]) for r in rows}, "every partition that was asked is answered, and no other"
        if all(code == 0 for code in codes.values()):
            self.acknowledged += 1
            self.last_success_us = self.world.now_us
        self._after(set(codes.values()))

    def _read(self, line) -> Steps:  # type: ignore[no-untyped-def]
        keys = tuple(self._some_keys())
        answer = yield from self.ask(
            line, frames.FETCH, self.group, FetchAsk(keys), self.dialect.fetch(self.group, keys)
        )
        if answer is not None:
            self._after({answer.error})

    def _after(self, codes: set[int]) -> None:
        if codes & RETRIABLE:
            self.hang_up()


def read_all(client: Client, group: str, keys: tuple[tuple[str, int], ...], broker: int) -> Steps:
    """One successful OffsetFetch of `keys` at the coordinator that `broker` names (O2)."""
    while True:
        line = yield from _through(client, group, broker)
        answer = yield from client.ask(line, frames.FETCH, group, FetchAsk(keys), client.dialect.fetch(group, keys))
        line.close()
        if answer is not None and answer.error == 0:
            return answer
        yield from client.sleep(50)


def _through(client: Client, group: str, broker: int) -> Steps:
    from tests.sim.client import Line

    while True:
        line = Line(client, broker)
        found = yield from client.ask(line, frames.FIND, group, None, client.dialect.find(group), timeout_ms=700)
        line.close()
        if found is not None and found.error == 0:
            return Line(client, found.broker)
        yield from client.sleep(50)


class Reader(Client):
    """The final read: every key of a group, through every replica that has a seat."""

    def __init__(self, cluster: Cluster, name: str, group: str, keys: tuple[tuple[str, int], ...]) -> None:
        super().__init__(cluster, name)
        self.group = group
        self.keys = keys

    def steps(self) -> Steps:
        for replica in self.cluster.voters():
            yield from read_all(self, self.group, self.keys, replica.broker)
