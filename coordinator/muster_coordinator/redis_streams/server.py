"""The port of a Redis server: scripts on a partition's two keys, and news of entries.

Implemented on asyncio by `runtime.redis_server`. A call never blocks or raises; `done` is called exactly once, on the
loop, within a bounded time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from importlib.resources import files
from typing import Any, NamedTuple, Protocol

from muster_coordinator.redis_streams.entry_ids import EntryId


class Script(NamedTuple):
    """A Lua script, by the name of its file; its text may begin with another file's."""

    name: str
    text: str


def _script(name: str, *before: str) -> Script:
    texts = (files("muster_coordinator.redis_streams").joinpath(f"{one}.lua").read_text() for one in (*before, name))
    return Script(name, "".join(texts))


APPEND = _script("append")
BEHIND = _script("behind")
CLAIM = _script("claim")
EXPIRE = _script("expire", "owner")
FORGET = _script("forget")
MIRROR = _script("mirror")
MIRRORED = _script("mirrored")
PROVE = _script("prove", "owner")
READ = _script("read")
TRIM = _script("trim", "owner")
SCRIPTS = (APPEND, BEHIND, CLAIM, EXPIRE, FORGET, MIRROR, MIRRORED, PROVE, READ, TRIM)


class Trouble(Enum):
    """What is known of a call that was not answered as it should be."""

    AWAY = auto()
    """It was not sent, or the server said that it is not ready: nothing has happened, and it may be tried again."""
    UNKNOWN = auto()
    """It was sent, and no answer came."""
    REFUSED = auto()
    """The server's error: nothing has happened."""
    NOT_DURABLE = auto()
    """It has happened, but is not as durable as `redis.durability` says."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Instead of an answer."""

    trouble: Trouble
    message: str


Answer = Sequence[Any] | Failure
"""What a script returned, strings as bytes."""


class StreamServer(Protocol):
    """See the module."""

    def run(
        self,
        script: Script,
        keys: tuple[str, str],
        arguments: Sequence[bytes],
        done: Callable[[Answer], None],
        *,
        durable: bool = False,
    ) -> None:
        """`durable`: what the script wrote is as durable as `redis.durability` says before `done`."""

    def news(self, stream: str, after: EntryId, notify: Callable[[], None]) -> Callable[[], None]:
        """Call `notify` once when the stream has an entry after this id; the returned function ends that."""

    def proves(self) -> bool:
        """Does an answer to a `durable` call say more than that the call was made? Then what was written may be there,
        and seen, before it is as durable as was asked for."""

    def unfit(self) -> str:
        """Why a batch that this server confirms may be lost although nobody has agreed to that; "": it is not so."""


class NoServer:
    """`StreamServer` of a replica whose configuration names none, in a cluster that has topics in Redis."""

    def run(
        self,
        script: Script,
        keys: tuple[str, str],
        arguments: Sequence[bytes],
        done: Callable[[Answer], None],
        *,
        durable: bool = False,
    ) -> None:
        done(Failure(Trouble.AWAY, self.unfit()))

    def news(self, stream: str, after: EntryId, notify: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    def proves(self) -> bool:
        return False

    def unfit(self) -> str:
        return "this replica has no redis.url"
