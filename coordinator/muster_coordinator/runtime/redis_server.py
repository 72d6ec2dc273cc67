"""A Redis server on asyncio: `redis_streams.server.StreamServer` over the client library `redis`.

Problem: a call may fail before it was sent, after, or by the server's word, and only the last says that nothing has
happened. Mechanism: each call has a connection of a bounded pool to itself, and what fails tells how far it had come.
Scripts go by their digest, and by their text where the server does not know it. What is to be durable goes with WAIT or
WAITAOF on the same connection, in the same write. The server is judged when it is first reached and every minute, and
one that is not fit every second: a server that would lose what it confirms, without anybody having agreed to that
(`redis.durability`), is not written to.
With Sentinels the server is the primary of the moment (`redis_sentinels`), and each is judged before it is written to.
What this does not do: try again (callers do, who know what a second try means), Cluster.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from redis.asyncio.connection import AbstractConnection, Connection
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from muster_coordinator.ports import Notice
from muster_coordinator.redis_streams.addresses import Address, text_of
from muster_coordinator.redis_streams.answers import of_script, pairs
from muster_coordinator.redis_streams.entry_ids import EntryId
from muster_coordinator.redis_streams.server import PROVE, SCRIPTS, Answer, Failure, Script, Trouble
from muster_coordinator.runtime.limits import REDIS_JUDGE_MS, REDIS_PROOFS_SHARE, REDIS_RETRY_MS
from muster_coordinator.runtime.redis_calls import Calls
from muster_coordinator.runtime.redis_connections import RedisSettings, pool_of
from muster_coordinator.runtime.redis_fitness import Fitness, Judgement, is_loading, judged
from muster_coordinator.runtime.redis_news import News, raise_bug
from muster_coordinator.runtime.redis_tasks import ended

AWAY = "Redis cannot be reached"
UNREACHED = "Redis was not reached yet"
_WRITTEN = (b"OK", b"DUPLICATE")
"""First words of scripts' answers after which there is something to prove."""
A_CLUSTER = "this server is a node of a Redis Cluster, for which redis.cluster.nodes is to be set"
UNFIT = "Redis is not fit for what is written to it"
_NOT_READY = (BusyLoadingError, ClusterDownError, MasterDownError, ReadOnlyError, TryAgainError)
_NOT_READY_WORDS = ("BUSY", "NOREPLICAS")
"""Errors of a server that will be ready, or of another one that is: classes of the library, and first words where it
has none."""


class Redirect(NamedTuple):
    """A node of a Redis Cluster says that another one is to be asked: nothing has happened."""

    slot: int
    to: Address
    ask: bool
    """Only for this call: the keys of the slot are on their way."""


class RedisServer:
    """See the module. Made and closed in the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: RedisSettings, notice: Notice) -> None:
        self._loop = loop
        self._settings = settings
        self._notice = notice
        self._pool = pool_of(settings)
        self._digests = {script.name: hashlib.sha1(script.text.encode()).hexdigest() for script in SCRIPTS}
        self._calls = Calls(loop)
        self._fitness = Fitness(settings.durability, settings.wait_replicas)
        self._judgement = Judgement(False, UNREACHED, ())
        self._judged: Address | None = None
        """Which server that is about; only Sentinels make it another one."""
        self._judge_now = asyncio.Event()
        self._proofs_left = max(1, settings.connections_max // REDIS_PROOFS_SHARE)
        self._news = News(loop, self.make_connection, self.ask, settings.timeout_ms)
        self._judging = loop.create_task(self._judge())
        self._judging.add_done_callback(raise_bug)

    def close(self) -> None:
        self._judging.cancel()
        self._calls.cancel()
        self._news.close()

    async def disconnected(self) -> None:
        """After `close`: its tasks have ended, and its connections are closed. A process that ends need not wait for
        that."""
        await self._news.disconnected()
        await self._calls.ended()
        await ended((self._judging,))
        await self._pool.disconnect()

    # -- StreamServer ----------------------------------------------------------------------------------------------

    def run(
        self,
        script: Script,
        keys: tuple[str, str],
        arguments: Sequence[bytes],
        done: Callable[[Answer], None],
        *,
        durable: bool = False,
    ) -> None:
        async def call() -> Answer:
            answer = await self.call(script, keys, arguments, durable=durable)
            return Failure(Trouble.REFUSED, A_CLUSTER) if isinstance(answer, Redirect) else answer

        self._calls.begin(call, done)

    def news(self, stream: str, after: EntryId, notify: Callable[[], None]) -> Callable[[], None]:
        return self._news.want(stream, after, notify)

    def proves(self) -> bool:
        return self._settings.proves

    def unfit(self) -> str:
        return self._judgement.unfit

    # -- for a node of a Redis Cluster -----------------------------------------------------------------------------

    def make_connection(self) -> AbstractConnection:
        """One more than those of the pool."""
        made: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        return made

    # -- calls -----------------------------------------------------------------------------------------------------

    async def call(
        self,
        script: Script,
        keys: tuple[str, str],
        arguments: Sequence[bytes],
        *,
        durable: bool = False,
        asking: bool = False,
    ) -> "Answer | Redirect":
        """As `run`. `asking`: it is in the middle of a move of these keys to this node, and another one has sent us."""
        if script is not PROVE:
            return await self._call(script, keys, arguments, durable=durable, asking=asking)
        if not self._proofs_left:
            return Failure(Trouble.AWAY, "too many proofs are asked for")
        self._proofs_left -= 1
        try:
            return await self._call(script, keys, arguments, durable=durable, asking=asking)
        finally:
            self._proofs_left += 1

    async def _call(
        self, script: Script, keys: tuple[str, str], arguments: Sequence[bytes], *, durable: bool, asking: bool
    ) -> "Answer | Redirect":
        rest = (len(keys), *keys, *arguments)
        try:
            connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        except (RedisError, OSError, ValueError) as error:
            return Failure(Trouble.AWAY, f"{AWAY}: {error}")
        try:
            if durable and self._settings.changes and _address(connection) != self._judged:
                # Another server than the one whose word is known: it may not be as durable.
                self._judge_now.set()
                return Failure(Trouble.AWAY, f"{AWAY}: another server is the primary, and is looked at first")
            if durable and self._settings.changes and self._judgement.unfit:
                return Failure(Trouble.AWAY, self._judgement.unfit)
            # By the judgement of this server, which may have come while a connection was made.
            proof = self._fitness.proof(self._judgement, self._settings.timeout_ms // 2) if durable else None
            known = ("EVALSHA", self._digests[script.name], *rest)
            answers = await _exchange(connection, known, proof, asking=asking)
            if isinstance(answers[0], NoScriptError):
                answers = await _exchange(connection, ("EVAL", script.text, *rest), proof, asking=asking)
            if isinstance(answers[0], ReadOnlyError):  # it is a replica by now
                await connection.disconnect(nowait=True)
        except (RedisError, OSError) as error:
            return Failure(Trouble.UNKNOWN, f"no answer of Redis: {error}")
        finally:
            await self._pool.release(connection)
        return self._meaning(script, answers)

    def _meaning(self, script: Script, answers: list[Any]) -> "Answer | Redirect":
        answer = answers[0]
        if isinstance(answer, AskError):  # of which MovedError is one
            return Redirect(answer.slot_id, answer.node_addr, not isinstance(answer, MovedError))
        if isinstance(answer, Exception):
            away = isinstance(answer, _NOT_READY) or str(answer).startswith(_NOT_READY_WORDS)
            return Failure(Trouble.AWAY if away else Trouble.REFUSED, f"Redis says: {answer}")
        if not of_script(script.name, answer):
            return Failure(Trouble.UNKNOWN, f"no answer of a script of ours: {answer!r:.100}")
        if len(answers) > 1 and answer[0] in _WRITTEN:
            why = self._fitness.unproven(answers[1])
            if why:
                return Failure(Trouble.NOT_DURABLE, why)
        found: Sequence[Any] = answer
        return found

    async def ask(self, *command: Any) -> Any:  # noqa: ANN401  # as the library has them
        """The answer to one command; raises what is wrong."""
        connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            return await _answer(connection, *command)
        finally:
            await self._pool.release(connection)

    # -- the server's fitness --------------------------------------------------------------------------------------

    async def _judge(self) -> None:
        before: Mapping[str, object] = {}
        while True:
            self._judge_now.clear()
            try:
                await self._look()
                looked = not self._judgement.unfit
            except (RedisError, OSError, ValueError) as error:  # the last: what it says of itself is no answer
                self._notice(AWAY, {"why": str(error)}, None)
                looked = False
            told = {"unfit": self._judgement.unfit, "warnings": "; ".join(self._judgement.warnings)}
            if told != before and any(told.values()):
                self._notice(UNFIT, told, None)
            before = told
            if not looked:
                await asyncio.sleep(REDIS_RETRY_MS / 1_000)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REDIS_JUDGE_MS / 1_000):
                    await self._judge_now.wait()

    async def _look(self) -> None:
        """At one server, whichever it is, by one connection."""
        connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            info = await _answer(connection, "INFO", "server", "memory", "persistence", "replication")
            text_of(info)  # or it is no answer to INFO
            if is_loading(info):
                raise BusyLoadingError("it is loading its files")
            judgement = judged(info, await _fsync(connection), self._fitness)
            self._judgement, self._judged = judgement, _address(connection)
            if b"\nrole:slave" in info:
                await connection.disconnect()
        finally:
            await self._pool.release(connection)


def _address(connection: AbstractConnection) -> Address | None:
    """None: it is a socket's file."""
    return (connection.host, connection.port) if isinstance(connection, Connection) else None


async def _fsync(connection: AbstractConnection) -> str:
    """`appendfsync`; "" of a server that does not tell."""
    try:
        answer = await _answer(connection, "CONFIG", "GET", "appendfsync")
    except ResponseError:
        return ""
    return next((text_of(value) for _, value in pairs(answer)), "")


async def _answer(connection: AbstractConnection, *command: Any) -> Any:  # noqa: ANN401  # as the library has them
    """The answer to one command; raises what is wrong."""
    (answer,) = await _exchange(connection, command, None)
    if isinstance(answer, Exception):
        raise answer
    return answer


async def _exchange(
    connection: AbstractConnection, command: Sequence[Any], proof: Sequence[Any] | None, *, asking: bool = False
) -> list[Any]:
    """The answers, errors of the server as values. That to ASKING is left out, or stands in place of the command's if
    it is why the command was sent away. Raises what says that none came."""
    commands = [*([("ASKING",)] if asking else []), command, *([] if proof is None else [proof])]
    await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
    answers: list[Any] = []
    for _ in commands:
        try:
            answers.append(await connection.read_response(disable_decoding=True))
        except (ResponseError, BusyLoadingError) as error:
            answers.append(error)
        except ValueError as error:  # of the library, at a MOVED that names no address
            await connection.disconnect(nowait=True)
            raise RedisConnectionError(f"no answer of Redis: {error}") from error
    if not asking:
        return answers
    asked, *others = answers
    if isinstance(asked, Exception) and isinstance(others[0], AskError):
        others[0] = asked
    return others
