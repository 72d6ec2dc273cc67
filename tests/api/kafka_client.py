"""A client that speaks through kio's entities: a second implementation encodes every request and decodes every
answer."""

from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode
from muster_coordinator.api.authorize import Authorize, allow_all
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.api.services import ApiSettings
from muster_coordinator.replica.partitions.surface import Surface
from muster_coordinator.security.session import SaslSession
from muster_coordinator.wire.codecs import HOT
from muster_coordinator.wire.connection import Connection
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import all_fields
from muster_coordinator.wire.throttling import NOBODY_THROTTLED, Throttling

from tests.made_settings import api_settings
from tests.wire.frames import frames_of
from tests.wire.kio_entities import decode_answer, encode_request


class StrictReply:
    """Passes an answer on after a look at its keys: the writer ignores unknown ones, so a typo would vanish."""

    def __init__(self, reply: Exchange) -> None:
        self._reply = reply

    def __call__(self, answer: Any) -> None:
        if isinstance(answer, dict) and self._reply.route.api not in HOT:
            _check_keys(answer, set().union(*all_fields(self._reply.route.api, "response").values()))
        self._reply(answer)

    def last(self, answer: Any, why: str) -> None:
        _check_keys(answer, set().union(*all_fields(self._reply.route.api, "response").values()))
        self._reply.last(answer, why)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reply, name)

    def on_answer(self, call: Callable[[Any], None]) -> None:
        self._reply.on_answer(call)

    def on_close(self, call: Callable[[], None]) -> None:
        self._reply.on_close(call)

    def on_followed(self, call: Callable[[], None]) -> None:
        self._reply.on_followed(call)


def _check_keys(value: Any, known: set[str]) -> None:
    if isinstance(value, dict):
        assert value.keys() <= known, value.keys() - known
        for one in value.values():
            _check_keys(one, known)
    elif isinstance(value, list | tuple):
        for one in value:
            _check_keys(one, known)


class KafkaClient:
    """One connection to a dispatcher over a replica, mostly a fake one."""

    def __init__(
        self,
        surface: Surface,
        *,
        settings: ApiSettings | None = None,
        authorize: Authorize = allow_all,
        listener: str = "PLAINTEXT",
        dispatcher: Dispatcher | None = None,
        sasl: SaslSession | None = None,
        throttling: Throttling = NOBODY_THROTTLED,
    ) -> None:
        self.surface = surface
        self.dispatcher = dispatcher or Dispatcher(surface, settings or api_settings(), authorize)
        self.connection = Connection(
            listener=listener,
            connection_id=1,
            client_host="/10.0.0.9",
            clock=surface.loop,
            handle=lambda context, request, reply: self.dispatcher.handle(context, request, StrictReply(reply)),
            wake=lambda: None,
            heartbeat_at_once=self.dispatcher.heartbeat_at_once,
            authenticated=sasl is None,
            sasl=sasl,
            throttling=throttling,
        )
        self._correlation = 0
        self._asked: list[tuple[int, int, int]] = []

    def send(self, api: int, version: int, **values: Any) -> None:
        """A request; answers wait in `receive`."""
        self._correlation += 1
        self._asked.append((api, version, self._correlation))
        self.connection.receive(encode_request(api, version, values, self._correlation, "tester"))

    def send_unanswered(self, api: int, version: int, **values: Any) -> None:
        """A request that gets no answer frame."""
        self.send(api, version, **values)
        self._asked.pop()

    def receive(self) -> list[Any]:
        """Answers that are ready, matched with their requests by order and correlation id."""
        answers = []
        for frame in frames_of(self.connection.take()):
            api, version, correlation = self._asked.pop(0)
            got, entity = decode_answer(api, version, frame)
            assert got == correlation
            answers.append(entity)
        self.connection.note_unsent(0)
        return answers

    def ask(self, api: int, version: int, **values: Any) -> Any:
        """One request and its answer, which must be there at once."""
        self.send(api, version, **values)
        answers = self.receive()
        assert len(answers) == 1, (api, version, self.connection.failure)
        return answers[0]

    @property
    def closed(self) -> bool:
        return self.connection.state in (State.FAILED, State.CLOSED)


def code(error: ErrorCode) -> int:
    """kio's error as a number."""
    return int(error.value)
