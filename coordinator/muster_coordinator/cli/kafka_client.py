"""The Kafka clients of the commands: kafka-python's, configured from options, with errors turned into sentences.

Queries are repeated until they are answered or the time is up, each time with a new client: while a coordinator moves,
answers are NOT_COORDINATOR or a closed connection, and a client would keep using its cached coordinator. Changes are
not repeated here; after a timeout it is unknown whether a change was made, and the error says so.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.extras import require

DEFAULT_TIMEOUT_S = 15.0
RETRY_PAUSE_S = 0.2
REQUEST_TIMEOUT_MIN_MS = 1_000

_NOT_FOUND = {
    "UnknownTopicOrPartitionError": "no such topic or partition",
    "UnknownTopicIdError": "no such topic",
    "GroupIdNotFoundError": "no such group",
    "UnknownMemberIdError": "no such member",
    "TransactionalIdNotFoundError": "no such transactional id",
}

Answer = TypeVar("Answer")
Untyped = Any
"""An object of kafka-python, which ships no types."""


def load_kafka() -> Untyped:
    """The package kafka-python, with its log silenced: errors reach the user as sentences."""
    require("this command", "cli")
    import kafka

    logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
    return kafka


def bootstrap_list(bootstrap: str) -> list[str]:
    """`host:port,host:port` as a list. Raises CliError."""
    found = [one.strip() for one in bootstrap.split(",") if one.strip()]
    if not found:
        raise CliError(Exit.USAGE, "no bootstrap server given")
    return found


def client_settings(properties: Mapping[str, str], defaults: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Kafka's names (`session.timeout.ms`) turned into kafka-python's (`session_timeout_ms`), typed like its defaults.

    Raises CliError for a name that the client does not know: a setting must not be ignored silently.
    """
    settings: dict[str, Any] = {}
    for key, text in properties.items():
        name = key.replace(".", "_")
        if name not in defaults:
            raise CliError(Exit.USAGE, f"{source}: unknown client setting {key!r}")
        settings[name] = _typed(text, defaults[name], key, source)
    return settings


def _typed(text: str, default: object, key: str, source: str) -> bool | int | str:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise CliError(Exit.USAGE, f"{source}: {key} must be true or false, not {text!r}")
        return text.lower() == "true"
    if isinstance(default, int | float):
        try:
            return int(text)
        except ValueError as error:
            raise CliError(Exit.USAGE, f"{source}: {key} must be a whole number, not {text!r}") from error
    return text


def was_refused(error: Untyped) -> bool:
    """Nobody listened at the address: nothing was sent."""
    return type(error).__name__ == "KafkaConnectionError" and "ECONNREFUSED" in str(error)


class KafkaSide:
    """One cluster, queried through an admin client that is created on first use."""

    def __init__(
        self, bootstrap: str, properties: Mapping[str, str] | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.kafka = load_kafka()
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self._properties = dict(properties or {})
        self._admin: Untyped = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._drop()

    def ask(self, question: Callable[[Untyped], Answer], what: str) -> Answer:
        """The answer to `question(admin)`, repeated on retriable errors, so without side effects. Raises CliError."""
        errors = self.kafka.errors
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                return question(self._client(deadline))
            except errors.KafkaError as error:
                self._drop()
                if not error.retriable or type(error).__name__ in _NOT_FOUND or time.monotonic() >= deadline:
                    raise self.sentence(error, what) from error
            time.sleep(RETRY_PAUSE_S)

    def change(self, command: Callable[[Untyped], Answer], what: str) -> Answer:
        """Run `command(admin)` once, and again only where nothing was sent: kafka-python asks any broker of the list,
        also one that died a moment ago. Raises CliError."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                return command(self._client(deadline))
            except self.kafka.errors.KafkaError as error:
                self._drop()
                if not was_refused(error) or time.monotonic() >= deadline:
                    raise self.sentence(error, what) from error
            time.sleep(RETRY_PAUSE_S)

    def attempt(self, question: Callable[[Untyped], Answer], ends_s: float) -> Answer:
        """`question(admin)` once, for who repeats it himself. `ends_s`: of the monotonic clock, when his time is up.
        Raises the client's error."""
        try:
            return question(self._client(ends_s))
        except self.kafka.errors.KafkaError as error:
            if error.retriable:
                self._drop()
            raise

    def renew(self) -> None:
        """Go on with a new client: the present one keeps a coordinator that it was told of, also one that has moved."""
        self._drop()

    def was_answered(self, error: Untyped) -> bool:
        """A broker has answered this error; else it is not known what became of the request."""
        errors = self.kafka.errors
        # The client uses the same class for its own time-out.
        return isinstance(error, errors.BrokerResponseError) and not isinstance(error, errors.RequestTimedOutError)

    def sentence(self, error: Untyped, what: str) -> CliError:
        """A kafka-python error as an error for the user."""
        errors = self.kafka.errors
        name = type(error).__name__
        if name in _NOT_FOUND:
            return CliError(Exit.NOT_FOUND, f"{what}: {_NOT_FOUND[name]}")
        if isinstance(error, errors.BrokerResponseError) and not error.retriable:
            return CliError(Exit.REFUSED, f"{what}: {error_text(error)}")
        if error.retriable:
            return CliError(
                Exit.UNREACHABLE,
                f"{what}: no usable answer from {self.bootstrap} within {self.timeout_s:g} s ({error_text(error)})",
            )
        return CliError(Exit.REFUSED, f"{what}: {error_text(error)}")

    def _client(self, deadline: float) -> Untyped:
        if self._admin is None:
            left_ms = max(REQUEST_TIMEOUT_MIN_MS, int((deadline - time.monotonic()) * 1000))
            defaults = self.kafka.KafkaAdminClient.DEFAULT_CONFIG
            settings = client_settings(self._properties, defaults, "client settings")
            settings.setdefault("client_id", "muster-cli")
            settings["bootstrap_servers"] = bootstrap_list(self.bootstrap)
            settings["bootstrap_timeout_ms"] = left_ms
            settings.setdefault("request_timeout_ms", max(REQUEST_TIMEOUT_MIN_MS, int(self.timeout_s * 1000)))
            self._admin = self._made(self.kafka.KafkaAdminClient, settings)
        return self._admin

    def _made(self, kind: Untyped, settings: dict[str, Any]) -> Untyped:
        """A new client. When no broker is found, the constructor raises and leaves a thread behind, which is ended
        here."""
        networks: list[Untyped] = []

        def network(**config: Untyped) -> Untyped:
            networks.append(kind.DEFAULT_CONFIG["kafka_client"](**config))
            return networks[-1]

        try:
            return kind(**settings, kafka_client=network)
        except self.kafka.errors.KafkaError:
            for one in networks:
                one.close()
            raise

    def _drop(self) -> None:
        if self._admin is not None:
            with suppress(self.kafka.errors.KafkaError):
                self._admin.close()
            self._admin = None


def error_text(error: Untyped) -> str:
    """The error without the dump of request and answer that kafka-python adds to its messages."""
    description = getattr(error, "description", None)
    if description:
        return " ".join(str(description).split()).rstrip(".")
    text = str(error.args[0]) if error.args else ""
    return f"{type(error).__name__}: {text}".rstrip(": ")
