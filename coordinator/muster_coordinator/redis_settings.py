"""The keys of topics in Redis, which `settings.Settings` inherits."""

# ruff: noqa: RUF009  # a key is a dataclass field with metadata

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from muster_coordinator.setting_field import setting
from muster_coordinator.setting_values import Parser, boolean, integer, one_of, parse_address

_PREFIX = re.compile(r"[A-Za-z0-9._:-]{1,100}")
_PRIMARY = re.compile(r"[A-Za-z0-9._-]{1,100}")
_SCHEMES = ("redis", "rediss", "unix")
SENTINELS_MAX = 20
"""Addresses in `redis.sentinels`; each is asked when a connection is made."""
NODES_TOLD_MAX = 100
"""Addresses in `redis.cluster.nodes`."""


def _url(text: str) -> str:
    if not text:
        return text
    parts = urlsplit(text)
    if parts.scheme not in _SCHEMES or not (parts.netloc or parts.path):
        raise ValueError("not redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH")
    if (
        parts.username is not None
        or parts.password is not None
        or {"username", "password"} & parse_qs(parts.query).keys()
    ):
        raise ValueError("user and password have keys of their own: redis.username, redis.password")
    # The client library takes any of its arguments from there, that no certificate is verified too.
    if parse_qs(parts.query, keep_blank_values=True).keys() - {"db"} or parts.fragment:
        raise ValueError("only db=N may follow the question mark; the rest has keys of its own")
    return text


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise ValueError("not 1 to 100 letters, digits, dots, colons, dashes or underscores")
    return text


def _addresses(most: int) -> Parser:
    def parse(text: str) -> tuple[tuple[str, int], ...]:
        found = tuple(parse_address(part.strip()) for part in text.split(",") if part.strip())
        if len(found) > most:
            raise ValueError(f"more than {most} addresses")
        if any(port == 0 for _, port in found):
            raise ValueError("nobody listens on port 0")
        return tuple(dict.fromkeys(found))

    return parse


def _location(text: str) -> Path | None:
    return Path(text) if text else None


def _plain(text: str) -> str:
    return text


def _unshown(name: str, parse: Parser, text: str) -> Any:  # noqa: ANN401  # typed where it is assigned
    """A key whose value is shown nowhere, and that may be left out."""
    metadata = {"key": name, "parse": parse, "default": "", "text": text, "secret": True}
    return field(default_factory=str, repr=False, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class RedisKeys:
    """The part of `Settings` that is about topics in Redis."""

    redis_url: str = _unshown(
        "redis.url",
        _url,
        "The Redis (7.0 or newer) of topics whose `topic.store` is redis: redis://HOST:PORT/DB, rediss:// with TLS, or "
        "unix:///PATH. All replicas need the same. It is not shown, since people write passwords into it.",
    )
    redis_sentinels: tuple[tuple[str, int], ...] = setting(
        "redis.sentinels",
        _addresses(SENTINELS_MAX),
        "",
        "Sentinels that are asked where the primary is, as host:port,...; `redis.url` has their name for it in place "
        "of an address: redis://NAME/DB. With rediss:// they too are asked by TLS. Empty: `redis.url` has the address.",
    )
    redis_sentinel_username: str = setting(
        "redis.sentinel.username", _plain, "", "The user at the Sentinels; empty: the default user."
    )
    redis_sentinel_password: str = _unshown(
        "redis.sentinel.password", _plain, "The password at the Sentinels; empty: they ask for none. It is never shown."
    )
    redis_nodes: tuple[tuple[str, int], ...] = setting(
        "redis.cluster.nodes",
        _addresses(NODES_TOLD_MAX),
        "",
        "Some nodes of a Redis Cluster, as host:port,...; the others are found through them, and `redis.url` is "
        "redis://cluster, or rediss://cluster with TLS. Empty: it is no Cluster.",
    )
    redis_username: str = setting("redis.username", _plain, "", "Its user; empty: the default user.")
    redis_password: str = _unshown(
        "redis.password", _plain, "The user's password; `${env:NAME}` keeps it out of the file. It is never shown."
    )
    redis_ssl_ca: Path | None = setting(
        "redis.ssl.ca.location",
        _location,
        "",
        "PEM file of authorities of which one has issued the certificate of Redis, with rediss://; empty: those of the "
        "system. The certificate is always verified, and names the host in redis.url. These three files are read at "
        "each new connection.",
    )
    redis_ssl_certificate: Path | None = setting(
        "redis.ssl.certificate.location",
        _location,
        "",
        "PEM file of the certificate by which Redis knows this replica, and of its intermediates; empty: none.",
    )
    redis_ssl_key: Path | None = setting(
        "redis.ssl.key.location",
        _location,
        "",
        "PEM file of its key, without a password; empty: in the certificate's file.",
    )
    redis_prefix: str = setting(
        "redis.prefix",
        _prefix,
        "muster",
        "Partition P of topic T is the stream PREFIX:{T:P}, if the topic has no `redis.stream`; what is kept beside a "
        "stream is under it too. It must not change while there are such topics.",
    )
    redis_groups_mirror: bool = setting(
        "redis.groups.mirror",
        boolean,
        "false",
        "Committed offsets of topics in Redis are shown as consumer groups of their streams, a moment behind each "
        "commit, for XINFO GROUPS: last-delivered-id is the entry before the committed offset. Positions stay in the "
        "offsets log. All replicas need the same.",
    )
    redis_durability: str = setting(
        "redis.durability",
        one_of("", "memory", "wait", "aof"),
        "",
        "When a batch is acknowledged: memory: when Redis has it in memory; wait: when `redis.wait.replicas` of its "
        "replicas have it, too; aof: when it is in its file on disk (WAITAOF, or `appendfsync always`). Empty: "
        "as memory, but nothing is taken by a server that keeps nothing: no append-only file, no replica.",
    )
    redis_wait_replicas: int = setting(
        "redis.wait.replicas", integer(1, 100), "1", "Replicas of Redis that `redis.durability=wait` waits for."
    )
    redis_connections_max: int = setting(
        "redis.connections.max", integer(2, 1_000), "16", "Connections of this replica to Redis, at most."
    )
    redis_protocol: int = setting(
        "redis.protocol",
        integer(2, 3),
        "2",
        "Which RESP is spoken: 2, which every server and proxy knows, or 3 (HELLO 3). Nothing else depends on it.",
    )
    redis_timeout_ms: int = setting(
        "redis.timeout.ms", integer(10, 60_000), "5000", "How long one call of Redis may take, and one connection."
    )

    def redis_files(self) -> dict[str, Path]:
        """Those that are named, by their keys."""
        named = {"ca": self.redis_ssl_ca, "certificate": self.redis_ssl_certificate, "key": self.redis_ssl_key}
        return {f"redis.ssl.{what}.location": path for what, path in named.items() if path is not None}

    def redis_problem(self, mode: str) -> str:
        """Why these values do not go together; "": they do."""
        if problem := self._sentinel_problem() or self._cluster_problem():
            return problem
        if self.redis_files() and not self.redis_url.startswith("rediss://"):
            return "redis.ssl.* need a redis.url that begins with rediss://"
        if self.redis_ssl_key and not self.redis_ssl_certificate:
            return "redis.ssl.key.location needs redis.ssl.certificate.location"
        return "topics.mode=redis needs redis.url" if mode == "redis" and not self.redis_url else ""

    def _cluster_problem(self) -> str:
        if not self.redis_nodes:
            return ""
        if self.redis_sentinels:
            return "redis.cluster.nodes and redis.sentinels do not go together"
        if self.redis_url not in ("redis://cluster", "rediss://cluster"):
            return "redis.cluster.nodes need redis.url to be redis://cluster or rediss://cluster"
        return ""

    def _sentinel_problem(self) -> str:
        if not self.redis_sentinels:
            unused = self.redis_sentinel_username or self.redis_sentinel_password
            return "redis.sentinel.* need redis.sentinels" if unused else ""
        # As it is written: a name may have capitals, which the host of a url has not.
        if self.redis_url.startswith("unix:") or not _PRIMARY.fullmatch(urlsplit(self.redis_url).netloc):
            return "redis.sentinels need a redis.url with their name for the primary, without a port: redis://NAME/DB"
        return ""

    @property
    def redis_primary(self) -> str:
        """What the Sentinels call it."""
        return urlsplit(self.redis_url).netloc
