"""The keys of topics in Redis, which `settings.Settings` inherits."""

# a key is a dataclass field with metadata

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from muster_coordinator.setting_field import setting
from muster_coordinator.setting_values import Parser, integer, one_of

_PREFIX = re.compile(r"[A-Za-z0-9._:-]{1,100}")
_SCHEMES = ("redis", "rediss", "unix")


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
    return text


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise ValueError("not 1 to 100 letters, digits, dots, colons, dashes or underscores")
    return text


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
    redis_username: str = setting("redis.username", _plain, "", "Its user; empty: the default user.")
    redis_password: str = _unshown(
        "redis.password", _plain, "The user's password; `${env:NAME}` keeps it out of the file. It is never shown."
    )
    redis_prefix: str = setting(
        "redis.prefix",
        _prefix,
        "muster",
        "Partition P of topic T is the stream PREFIX:{T:P}. It must not change while there are such topics.",
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
    redis_timeout_ms: int = setting(
        "redis.timeout.ms", integer(10, 60_000), "5000", "How long one call of Redis may take, and one connection."
    )

    def redis_problem(self, mode: str) -> str:
        """Why these values do not go together; "": they do."""
        return "topics.mode=redis needs redis.url" if mode == "redis" and not self.redis_url else ""
