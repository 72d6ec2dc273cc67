"""Simulated clients: generators that speak Kafka frames, one step a `yield`, on virtual time.

A client asks any replica for the coordinator, talks to the one it was told, and treats silence and a closed connection
as an unknown outcome. `yield` hands out a function that is given `resume`; the world calls it back later, once.
"""

import random
from collections.abc import Callable, Generator
from typing import Any

from tests.sim import frames
from tests.sim.cluster import Cluster
from tests.sim.frames import Dialect, Found, Request
from tests.sim.history import Op
from tests.sim.wires import Wire

Steps = Generator[Callable[[Callable[[Any], None]], None], Any, Any]

RETRIABLE = frozenset({14, 15, 16})
"""Ask for the coordinator again."""


class Stopped(Exception):
    """The run is over for this client."""


class Line:
    """A client's connection: requests out, answers in order, everything lost at once when it ends."""

    def __init__(self, client: "Client", broker: int) -> None:
        self.client = client
        self.open = True
        self._buffer = b""
        self._correlation = 0
        self._waiting: dict[int, tuple[Op, Callable[[Any], None]]] = {}
        self.wire: Wire = client.cluster.wires.connect(client.name, broker, self)

    def send(self, op: Op, request: Request, done: Callable[[Any], None]) -> None:
        """`done(answer)`, or `done(None)` when nobody will ever know."""
        self._correlation += 1
        self.client.cluster.asked[self.wire.number, self._correlation] = (op, request.answer)
        self._waiting[self._correlation] = (op, done)
        self.wire.send(request.frame(self._correlation, self.client.name))

    def received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            size = int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < 4 + size:
                return
            frame, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
            correlation = int.from_bytes(frame[:4], "big")
            assert correlation == next(iter(self._waiting)), "answers in the order of the requests (P1)"
            op, done = self._waiting.pop(correlation)
            op.heard = True
            done(op.answer)

    def closed(self) -> None:
        self.open = False
        waiting, self._waiting = self._waiting, {}
        for _, done in waiting.values():
            done(None)

    def close(self) -> None:
        if self.open:
            self.wire.close()
            self.closed()


class Client:
    """Base of all kinds. `steps` is the life of the client; `stop` ends it at its next step."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.rand = random.Random(f"{cluster.setup.seed}/client/{name}")
        self.dialect = Dialect(new=self.rand.random() < 0.6)
        self.timeout_ms = 3_000
        self.stopping = False
        self.done = False
        self.line: Line | None = None

    # Running.

    def start(self, after_ms: int = 0) -> None:
        self.spawn(self._life(), after_ms)

    def _life(self) -> Steps:
        try:
            yield from self.steps()
        finally:
            self.done = True

    def steps(self) -> Steps:
        raise NotImplementedError

    def stop(self) -> None:
        self.stopping = True

    def spawn(self, steps: Steps, after_ms: int = 0) -> None:
        """Let `steps` run beside the others."""

        def resume(value: Any) -> None:
            try:
                wait = steps.send(value)
            except (StopIteration, Stopped):
                return
            once = [resume]
            wait(lambda result: once.pop()(result) if once else None)

        self.world.at(self.world.now_us + after_ms * 1000, lambda: resume(None))

    # Steps.

    def sleep(self, ms: float) -> Steps:
        until_us = self.world.now_us + max(1, int(ms * 1000))
        yield lambda resume: self.world.at(until_us, lambda: resume(None))
        if self.stopping:
            self.hang_up()
            raise Stopped

    def ask(self, line: Line, api: int, group: str, detail: Any, request: Request, timeout_ms: int = 0) -> Steps:
        """The answer, or None when the outcome is unknown; then the connection is gone."""
        op = self.cluster.history.begin(self.name, api, group, detail, self.world.now_us)
        until_us = self.world.now_us + (timeout_ms or self.timeout_ms) * 1000

        def wait(resume: Callable[[Any], None]) -> None:
            line.send(op, request, resume)
            self.world.at(until_us, lambda: resume("late"))

        answer = yield wait
        if answer == "late":
            line.close()
            answer = None
        if self.stopping:
            self.hang_up()
            raise Stopped
        return answer

    def coordinator(self, group: str, kind: int = 0) -> Steps:
        """A connection to whoever is said to coordinate `group`; of `kind` 1 it is a transactional id."""
        backoff_ms = 20
        while True:
            if self.line is not None and self.line.open:
                return self.line
            line = Line(self, self.rand.randrange(len(self.cluster.everyone)))
            found: Found | None = yield from self.ask(
                line, frames.FIND, group, None, self.dialect.find(group, kind), timeout_ms=700
            )
            line.close()
            if found is not None and found.error == 0:
                assert found.host == f"n{found.broker}", f"broker {found.broker} at {found.host} (G20)"
                self.line = Line(self, found.broker)
                return self.line
            if found is not None:
                assert found.error in RETRIABLE, f"FindCoordinator answered {found.error}"
            yield from self.sleep(self.rand.uniform(backoff_ms, 2 * backoff_ms))
            backoff_ms = min(400, backoff_ms * 2)

    def hang_up(self) -> None:
        """Close without a word."""
        line, self.line = self.line, None
        if line is not None:
            line.close()
