"""Connections to Redis as the settings say: to one address, or to whatever server Sentinels call the primary.

What it does not do: make any before it is used, or try twice.
"""

from pathlib import Path
from typing import Any, NamedTuple

from redis.asyncio import BlockingConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from muster_coordinator.redis_settings import RedisKeys
from muster_coordinator.redis_streams.addresses import Address
from muster_coordinator.runtime.redis_greeting import Pool, SocketFileConnection, TcpConnection
from muster_coordinator.runtime.redis_sentinels import PrimaryConnection, PrimaryTlsConnection, Sentinels
from muster_coordinator.runtime.redis_tls import RenewedConnection


class RedisSettings(NamedTuple):
    """`settings`' keys that begin with `redis.`"""

    url: str
    username: str
    password: str
    durability: str
    wait_replicas: int
    connections_max: int
    timeout_ms: int
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    sentinels: tuple[Address, ...] = ()
    """Empty: the address is in `url`. Else the url's is not looked at."""
    primary: str = ""
    """Their name for it."""
    sentinel_username: str = ""
    sentinel_password: str = ""
    nodes: tuple[Address, ...] = ()
    """Some of a Redis Cluster's. Empty: it is none."""
    protocol: int = 2
    """Of RESP."""
    node: Address | None = None
    """Which of them this is about; the url's is not looked at."""

    @property
    def proves(self) -> bool:
        """Is a batch asked after once Redis has it (`redis_fitness`)?"""
        return self.durability in ("wait", "aof")

    @property
    def changes(self) -> bool:
        """Is the server another one at times, or one of many that come and go?"""
        return bool(self.sentinels or self.nodes)

    @classmethod
    def of(cls, keys: RedisKeys) -> "RedisSettings":
        """Of a replica, or of a command that reads the same file."""
        return cls(
            url=keys.redis_url,
            username=keys.redis_username,
            password=keys.redis_password,
            durability=keys.redis_durability,
            wait_replicas=keys.redis_wait_replicas,
            connections_max=keys.redis_connections_max,
            timeout_ms=keys.redis_timeout_ms,
            ca=keys.redis_ssl_ca,
            certificate=keys.redis_ssl_certificate,
            key=keys.redis_ssl_key,
            sentinels=keys.redis_sentinels,
            primary=keys.redis_primary,
            sentinel_username=keys.redis_sentinel_username,
            sentinel_password=keys.redis_sentinel_password,
            nodes=keys.redis_nodes,
            protocol=keys.redis_protocol,
        )

    def at(self, address: Address) -> "RedisSettings":
        """Of one node of a Redis Cluster."""
        return self._replace(node=address)

    def each_connection(self) -> dict[str, Any]:
        """Arguments of every connection, to Sentinels too."""
        seconds = self.timeout_ms / 1_000
        bounds = {"socket_timeout": seconds, "socket_connect_timeout": seconds, "retry": Retry(NoBackoff(), 0)}
        return {**bounds, "protocol": self.protocol, **self.encryption()}

    def encryption(self) -> dict[str, Any]:
        """Arguments of a `RenewedConnection`; none without TLS."""
        if not self.url.startswith("rediss://"):
            return {}
        files = {"ssl_ca_certs": self.ca, "ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        return {name: str(path) for name, path in files.items() if path is not None}


def pool_of(settings: RedisSettings) -> BlockingConnectionPool:
    """Connections to the server, none of them made yet; a call is tried once."""
    encrypted = settings.url.startswith("rediss://")
    seconds = settings.timeout_ms / 1_000
    pool = Pool.from_url(
        settings.url,
        username=settings.username or None,
        password=settings.password or None,
        max_connections=settings.connections_max,
        timeout=seconds,
        client_name="muster",
        **settings.each_connection(),
    )
    if encrypted:
        pool.connection_class = RenewedConnection
    else:
        pool.connection_class = SocketFileConnection if settings.url.startswith("unix:") else TcpConnection
    if settings.node is not None:
        # Not by a url: this address comes from other nodes.
        pool.connection_kwargs["host"], pool.connection_kwargs["port"] = settings.node
    if settings.sentinels:
        made = RenewedConnection if encrypted else TcpConnection
        login: dict[str, Any] = {
            "username": settings.sentinel_username or None,
            "password": settings.sentinel_password or None,
        }
        pool.connection_class = PrimaryTlsConnection if encrypted else PrimaryConnection
        pool.connection_kwargs["sentinels"] = Sentinels(
            settings.sentinels,
            settings.primary,
            lambda at: made(host=at[0], port=at[1], **login, **settings.each_connection()),
            settings.timeout_ms,
        )
    return pool
