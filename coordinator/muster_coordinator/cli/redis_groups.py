"""The consumer groups of a Redis, as commands read them.

Problem: a position must be read so that nothing is passed over, though Redis' consumers may still run, and by the same
verified connection as a replica's. Mechanism: connections that are closed at the end (`redis_nodes`); first XINFO
GROUPS, then XPENDING: an entry delivered between the two is behind what the first answer says was delivered. The other
way around it might be in neither. What this does not do: write, or try again.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.import_plan import RedisPosition
from muster_coordinator.cli.redis_nodes import RedisNodes
from muster_coordinator.properties import PropertiesError, parse_properties, with_environment
from muster_coordinator.redis_settings import RedisKeys
from muster_coordinator.redis_streams.answers import pairs
from muster_coordinator.redis_streams.entry_ids import EntryId


class RedisAt(NamedTuple):
    """Which Redis, and how its streams are called."""

    keys: RedisKeys
    timeout_ms: int


def redis_at(text: str, timeout_s: float, option: str = "--from-redis") -> RedisAt:
    """By a url, or by a replica's properties file, whose keys `redis.*` count. Raises CliError, which quotes no
    value."""
    told = {"redis.url": text}
    source = option
    if "://" not in text:
        source = text
        try:
            values = parse_properties(Path(text).read_text("utf-8"))
            told = with_environment({k: v for k, v in values.items() if k.startswith("redis.")}, os.environ)
        except (OSError, UnicodeDecodeError, PropertiesError) as error:
            raise CliError(Exit.USAGE, f"cannot use {text}: {error}") from error
    arguments: dict[str, Any] = {}
    for item in fields(RedisKeys):
        key = item.metadata["key"]
        if key in told:
            try:
                arguments[item.name] = item.metadata["parse"](told.pop(key).strip())
            except ValueError as error:
                raise CliError(Exit.USAGE, f"{source}: {key}: {error}") from error
    if told:
        raise CliError(Exit.USAGE, f"{source}: unknown key {min(told)}")
    keys = RedisKeys(**arguments)
    problem = keys.redis_problem("redis")
    if problem:
        raise CliError(Exit.USAGE, f"{source}: {problem}")
    return RedisAt(keys, max(1, int(timeout_s * 1_000)))


def positions(at: RedisAt, group: str, streams: Iterable[str]) -> dict[str, RedisPosition | None]:
    """Where the group is in each stream; None where the stream or the group in it is not. Raises CliError."""
    from redis.exceptions import AuthenticationError, RedisError, ResponseError

    try:
        return asyncio.run(_positions(at, group, list(streams)))
    except (ResponseError, AuthenticationError) as error:
        raise CliError(Exit.REFUSED, f"nothing was imported: Redis says: {error}") from error
    except (RedisError, OSError) as error:
        raise CliError(Exit.UNREACHABLE, f"nothing was imported: Redis cannot be reached: {error}") from error


async def _positions(at: RedisAt, group: str, streams: list[str]) -> dict[str, RedisPosition | None]:
    async with RedisNodes(at.keys, at.timeout_ms) as nodes:
        return {stream: await _position(await nodes.to(stream), group, stream) for stream in streams}


async def _position(connection: Any, group: str, stream: str) -> RedisPosition | None:  # noqa: ANN401  # the library's
    async def ask(*command: str) -> Any:  # noqa: ANN401
        await connection.send_command(*command)
        return await connection.read_response(disable_decoding=True)

    kind = (await ask("TYPE", stream)).decode()
    if kind == "none":
        return None
    if kind != "stream":
        raise CliError(Exit.REFUSED, f"nothing was imported: {stream} is a {kind}, not a stream")
    listed = [_named(one) for one in await ask("XINFO", "GROUPS", stream)]
    found = next((one for one in listed if one["name"] == group.encode()), None)
    if found is None:
        return None
    count, lowest, *_ = await ask("XPENDING", stream, group)
    return RedisPosition(
        EntryId.parse(found["last-delivered-id"]), count, None if lowest is None else EntryId.parse(lowest)
    )


def _named(row: Any) -> Mapping[str, Any]:  # noqa: ANN401  # the library's
    return {name.decode(): value for name, value in pairs(row)}
