"""Whether a Redis keeps what it confirms, by what it says of itself, and what is asked for as proof after a write.

| `redis.durability` | a batch is acknowledged when | lost with |
|---|---|---|
| memory | Redis has it | the memory of Redis |
| wait | so many replicas of Redis have it in their memory, too | the memory of all of them; or a fail-over to another |
| aof | it is in the append-only file on disk | the disk |
| empty | as memory, by a server with an append-only file or a replica | what came since its last fsync, or copy |

What this does not do: ask (`redis_server`).
"""

from typing import Any, NamedTuple

_WAITAOF_SINCE = (7, 2)
_OLDEST = (7, 0)
_MEMORY_SHARE_MAX = 0.8


class Judgement(NamedTuple):
    """What a server is good for."""

    has_waitaof: bool
    unfit: str
    """Why nothing is written to it; "": it is."""
    warnings: tuple[str, ...]


class Fitness(NamedTuple):
    """What is asked of the server."""

    durability: str
    wait_replicas: int

    def proof(self, judgement: Judgement, timeout_ms: int) -> tuple[Any, ...] | None:
        """The command behind a write whose answer says that it is as durable as wanted; None: there is none to ask."""
        if self.durability == "wait":
            return "WAIT", self.wait_replicas, timeout_ms
        if self.durability == "aof" and judgement.has_waitaof:
            return "WAITAOF", 1, 0, timeout_ms
        return None

    def unproven(self, answer: Any) -> str:  # noqa: ANN401  # as the library has it
        """Why the answer to `proof` is none; "": it is one."""
        if isinstance(answer, Exception):
            return f"Redis has the batch, and says of its durability: {answer}"
        aof = self.durability == "aof"
        count = answer[0] if aof and isinstance(answer, list) and answer else answer
        wanted = 1 if aof else self.wait_replicas
        if isinstance(count, int) and count >= wanted:
            return ""
        where = "its append-only file" if self.durability == "aof" else f"{wanted} of its replicas"
        return f"Redis has the batch, but not in time in {where}"


def is_loading(info: bytes) -> bool:
    """Does it still read its files? Until then it has no append-only file by what it says, and answers to nothing."""
    return b"\nloading:1" in info


def judged(info: bytes, appendfsync: str, fitness: Fitness) -> Judgement:
    """Judge a server by its INFO."""
    said = dict(line.split(":", 1) for line in info.decode(errors="replace").splitlines() if ":" in line)
    version = _version(said.get("redis_version", ""))
    has_file = said.get("aof_enabled") == "1"
    has_replicas = int(said.get("connected_slaves", "0")) > 0
    policy = said.get("maxmemory_policy", "noeviction")
    unfit = ""
    if version < _OLDEST:
        unfit = f"this server is Redis {said.get('redis_version')}, 7.0 is needed"
    elif said.get("role", "master") != "master":
        unfit = "this server is a replica"
    elif policy.startswith("allkeys"):
        unfit = f"its maxmemory-policy {policy} removes records; noeviction does not"
    elif not fitness.durability and not has_file and not has_replicas:
        unfit = (
            "it keeps nothing: it has no append-only file and no replica; if that is wanted, redis.durability=memory"
        )
    elif fitness.durability == "aof" and not has_file:
        unfit = "redis.durability is aof, and it has no append-only file"
    elif fitness.durability == "aof" and version < _WAITAOF_SINCE and appendfsync != "always":
        unfit = "redis.durability is aof: before Redis 7.2 that needs appendfsync always"
    warnings = []
    if policy != "noeviction" and not unfit:
        warnings.append(f"maxmemory-policy is {policy}")
    if not has_file and said.get("rdb_last_save_time", "0") == "0":
        warnings.append("nothing is persistent")
    most, used = int(said.get("maxmemory", "0")), int(said.get("used_memory", "0"))
    if most and used > _MEMORY_SHARE_MAX * most:
        warnings.append(f"{used} of {most} bytes of memory are used")
    return Judgement(version >= _WAITAOF_SINCE, unfit, tuple(warnings))


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else (0,)
