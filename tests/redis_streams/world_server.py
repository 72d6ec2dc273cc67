"""A real Redis as `StreamServer` of replicas on virtual time: each call is made in its turn and answered in the next.

What happens to a call can be chosen: it is not sent, its answer is lost after the server has executed it, or what it
wrote is not as durable as it should be.
"""

from collections.abc import Callable, Sequence
from typing import Any

from muster_coordinator.redis_streams.answers import of_script
from muster_coordinator.redis_streams.entry_ids import EntryId
from muster_coordinator.redis_streams.server import Answer, Failure, Script, Trouble

from tests.redis_streams.redis_server import RedisError, RedisServer
from tests.sim.loop import World

LOOK_US = 5_000
ANSWER_US = 100


class WorldServer:
    """`fate(script)` says what happens to a call: None, AWAY, UNKNOWN or NOT_DURABLE."""

    def __init__(self, server: RedisServer, world: World) -> None:
        self._world = world
        self.server = server
        self.redis = server.connect()
        self.fate: Callable[[Script], Trouble | None] = lambda _: None
        self.instead: Callable[[Script, Answer], Answer] = lambda _, answer: answer
        """What is told instead of an answer."""
        self.why_unfit = ""
        self.promises = True
        """An answer to what is to be durable says so."""
        self.calls: list[str] = []
        self.entries_told = 0
        """Texts of entries, and what belongs to them, by reads."""
        self.delays_us: dict[str, int] = {}
        """By script: how long its answer takes, where that is not `ANSWER_US`."""

    def run(
        self,
        script: Script,
        keys: tuple[str, str],
        arguments: Sequence[bytes],
        done: Callable[[Answer], None],
        *,
        durable: bool = False,
    ) -> None:
        self.calls.append(script.name)
        assert durable == (script.name in ("append", "prove"))
        fate = self.fate(script)
        answer: Answer = Failure(Trouble.AWAY, "not sent")
        if fate is not Trouble.AWAY:
            try:
                answer = self.redis.ask("EVAL", script.text, 2, *keys, *arguments)
                assert of_script(script.name, answer), (script.name, answer)
                self.entries_told += len(answer[-1]) if script.name == "read" and answer[0] == b"OK" else 0
                answer = self.instead(script, answer)
            except RedisError as error:
                answer = Failure(Trouble.REFUSED, str(error))
        if fate is Trouble.UNKNOWN:
            answer = Failure(Trouble.UNKNOWN, "the answer is lost")
        elif fate is Trouble.NOT_DURABLE:
            assert durable
            answer = Failure(Trouble.NOT_DURABLE, "Redis has it, and nobody else")
        self._world.at(self._world.now_us + self.delays_us.get(script.name, ANSWER_US), lambda: done(answer))

    def news(self, stream: str, after: EntryId, notify: Callable[[], None]) -> Callable[[], None]:
        wanted = True

        def look() -> None:
            if not wanted:
                return
            found: Any = self.redis.ask("XRANGE", stream, f"({after.text}", "+", "COUNT", 1)
            if found:
                notify()
            else:
                self._world.at(self._world.now_us + LOOK_US, look)

        def end() -> None:
            nonlocal wanted
            wanted = False

        self._world.at(self._world.now_us + LOOK_US, look)
        return end

    def proves(self) -> bool:
        return self.promises

    def unfit(self) -> str:
        return self.why_unfit
