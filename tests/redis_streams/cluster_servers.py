"""A real Redis Cluster on loopback: three primaries with a third of the slots each, and a replica of each."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from redis.crc import key_slot

from tests.cluster import wait_until
from tests.redis_streams.redis_server import RedisError, RedisServer

PRIMARIES = 3
SLOTS = 16_384
SETTLED_S_MAX = 90.0
NODE_TIMEOUT_MS = 3_000
"""A primary that is silent for so long is failed over; on a busy machine one that lives is silent for a second."""
KEYS_AT_ONCE = 10


class Cluster:
    """Start and end by `with`."""

    def __init__(self, folder: Path) -> None:
        self.servers: list[RedisServer] = []
        for number in range(2 * PRIMARIES):
            self.servers.append(_node(folder / f"node-{number}"))

    def __enter__(self) -> "Cluster":
        try:
            self._form()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _form(self) -> None:
        for number, server in enumerate(self.servers):
            server.start()
            server.connect().ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)  # else they quarrel about who is newer
        first = self.servers[0]
        for server in self.servers[1:]:
            # The port of its bus, besides.
            server.connect().ask("CLUSTER", "MEET", "127.0.0.1", first.port, first.port + 100)
        for number, server in enumerate(self.servers[:PRIMARIES]):
            low, high = SLOTS * number // PRIMARIES, SLOTS * (number + 1) // PRIMARIES - 1
            server.connect().ask("CLUSTER", "ADDSLOTSRANGE", low, high)
        wait_until("all know all", self._all_met, SETTLED_S_MAX)
        for number, server in enumerate(self.servers[PRIMARIES:]):
            server.connect().ask("CLUSTER", "REPLICATE", self.id_of(self.servers[number]))
        self.wait_whole()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers:
            server.close()

    @property
    def settings(self) -> dict[str, Any]:
        """Of a client (`runtime.redis_connections.RedisSettings`); one node of them is enough."""
        return {"url": "redis://cluster", "nodes": (("127.0.0.1", self.servers[0].port),)}

    @property
    def keys(self) -> dict[str, str]:
        """Of a replica's configuration."""
        nodes = ",".join(f"127.0.0.1:{server.port}" for server in self.servers)
        return {"redis.url": "redis://cluster", "redis.cluster.nodes": nodes}

    def id_of(self, server: RedisServer) -> str:
        return str(server.connect().ask("CLUSTER", "MYID").decode())

    def owner(self, key: str) -> RedisServer:
        """The primary that has this key's slot by its own word; of two, the one that most nodes call so."""
        slot = key_slot(key.encode())
        said: list[int] = []
        own: list[RedisServer] = []
        for server in self.servers:
            try:
                ranges = server.connect().ask("CLUSTER", "SLOTS")
            except (OSError, RedisError):
                continue
            ports = [primary[1] for first, last, primary, *_ in ranges if first <= slot <= last]
            said += ports
            if server.port in ports:
                own.append(server)
        if not own:  # just now: its replica is not one yet
            return next(server for server in self.servers if server.port == max(set(said), key=said.count))
        return max(own, key=lambda server: said.count(server.port))

    def wait_other_than(self, before: RedisServer, key: str) -> RedisServer:
        """Somebody else has the slot of this key."""
        wait_until("another primary", lambda: self.owner(key) is not before, SETTLED_S_MAX)
        return self.owner(key)

    def wait_whole(self) -> None:
        """Each primary has its replica, which has what it has, and all of them agree."""
        wait_until("a whole cluster", self._whole, SETTLED_S_MAX)

    def move(self, key: str, to: RedisServer) -> None:
        """The slot of this key, with all that is in it, as `redis-cli --cluster reshard` does it."""
        slot, source = key_slot(key.encode()), self.owner(key)
        giving, taking = source.connect(), to.connect()
        # The new owner's claim must be newer than any that the old one has under way, or it loses the slot to that one,
        # and Redis deletes what is in it.
        wait_until("the new owner knows how new the old one is", lambda: _epochs_known(source, to), SETTLED_S_MAX)
        taking.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        giving.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(to))
        while names := giving.ask("CLUSTER", "GETKEYSINSLOT", slot, KEYS_AT_ONCE):
            giving.ask("MIGRATE", "127.0.0.1", to.port, "", 0, 5_000, "KEYS", *names)
        for server in (to, source, *self.servers):
            if self.is_primary(server):
                server.connect().ask("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(to))

    @contextmanager
    def joined(self, place: Path) -> Iterator[RedisServer]:
        """One more node, without a slot; in the end it must have none again."""
        new = _node(place)
        with new:
            new.connect().ask("CLUSTER", "MEET", "127.0.0.1", self.servers[0].port, self.servers[0].port + 100)
            name = self.id_of(new)
            self.servers.append(new)
            wait_until("all know it", lambda: all(_knows(server, name) for server in self.servers), SETTLED_S_MAX)
            try:
                yield new
            finally:
                self.servers.remove(new)
            for server in self.servers:
                server.connect().ask("CLUSTER", "FORGET", name)

    def is_primary(self, server: RedisServer) -> bool:
        return bool(server.connect().ask("ROLE")[0] == b"master")

    def _all_met(self) -> bool:
        for server in self.servers:
            known = server.connect().ask("CLUSTER", "NODES").decode().splitlines()
            if len(known) != len(self.servers) or any("handshake" in line for line in known):
                return False
            if b"cluster_slots_assigned:16384" not in server.connect().ask("CLUSTER", "INFO"):
                return False
        return True

    def _whole(self) -> bool:
        for server in self.servers:
            try:
                if b"cluster_state:ok" not in server.connect().ask("CLUSTER", "INFO"):
                    return False
                if b"fail" in server.connect().ask("CLUSTER", "NODES"):
                    return False
                role = server.connect().ask("ROLE")
            except (OSError, RedisError):
                return False
            if len(role[2]) != 1 if role[0] == b"master" else role[3] != b"connected":
                return False
        return True


def _node(place: Path) -> RedisServer:
    place.mkdir(parents=True)
    server = RedisServer(place)
    server.more = (
        "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", str(server.port + 100),
        "--cluster-node-timeout", str(NODE_TIMEOUT_MS), "--repl-diskless-sync-delay", "0",
        # Else who gives its last slot away becomes a replica.
        "--cluster-allow-replica-migration", "no",
    )  # fmt: skip
    return server


def _epochs_known(source: RedisServer, to: RedisServer) -> bool:
    """Does `to` know the configuration epoch that `source` has by its own word?"""
    name = source.connect().ask("CLUSTER", "MYID").decode()
    said = source.connect().ask("CLUSTER", "INFO").decode().splitlines()
    (own,) = (int(line.split(":")[1]) for line in said if line.startswith("cluster_my_epoch:"))
    lines = [line.split() for line in to.connect().ask("CLUSTER", "NODES").decode().splitlines()]
    return any(words[0] == name and int(words[6]) >= own for words in lines)


def _knows(server: RedisServer, name: str) -> bool:
    """Besides, it has joined to the end."""
    known = server.connect().ask("CLUSTER", "NODES").decode()
    return name in known and "handshake" not in known and b"cluster_state:ok" in server.connect().ask("CLUSTER", "INFO")
