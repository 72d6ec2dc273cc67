"""What becomes of a request for the upstream, by the rights of its client. Values in, values out.

Requests and answers are as `wire.reader` gives them; what is changed is given as `wire.writer` takes it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from muster_coordinator.errors import Code
from muster_coordinator.security.resources import Operation, Resource, ResourceType
from muster_coordinator.wire.schema import Value

Message = Mapping[str, Value]
"""A request or an answer for `wire.writer`."""

DENIED = {
    ResourceType.TOPIC: (Code.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ResourceType.GROUP: (Code.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ResourceType.CLUSTER: (Code.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    ResourceType.TRANSACTIONAL_ID: (
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}
"""Kafka's code and text of a denial, by the type of resource."""


class Rights(Protocol):
    """Of the client that sent a request, at the time when it was read."""

    def may(self, operation: Operation, resource: Resource) -> bool:
        """A no is a denial."""
        ...

    def may_instead(self, operation: Operation, resource: Resource) -> bool:
        """Where another right may stand in for this one: a no denies nothing."""
        ...

    def sees(self, operation: Operation, resource: Resource) -> bool:
        """For a list of what there is: a no leaves it out."""
        ...

    def may_some(self, operation: Operation, kind: ResourceType) -> bool:
        """May he do this to any resource of the type at all?"""
        ...


Heard = Callable[[Message | None], None]
"""Hears once what a client was answered; None: there was no answer."""


class Asking(Rights, Protocol):
    """Whoever sent a request: his rights, and who is to hear what became of it."""

    def audited(self, request: Value) -> Heard | None:
        """None: nobody is."""
        ...


@dataclass(frozen=True, slots=True)
class Told:
    """Nothing goes to the upstream: this is the answer. None: the request wants none, and the client's connection
    ends, as Kafka ends it."""

    answer: Message | None


@dataclass(frozen=True, slots=True)
class GoesOn:
    """The request goes on."""

    request: Message | None = None
    """Instead of what was sent; None: as it is."""
    answer: Callable[[Value], Message] | None = None
    """What the client is told instead of the upstream's answer; None: that, as it is."""
    version: int | None = None
    """In which it is asked; None: in the client's. Given only with a request."""
    keeps: Callable[[str], bool] | None = None
    """Which topics of an answer of Metadata the client is told, where `answer` does nothing else: a shorter way."""


AS_IT_IS = GoesOn()
Verdict = Told | GoesOn


def topic(name: str) -> Resource:
    """The topic of this name."""
    return Resource(ResourceType.TOPIC, name)


def transactional_id(name: str) -> Resource:
    """The transactional id of this name."""
    return Resource(ResourceType.TRANSACTIONAL_ID, name)


def message_of(value: Value) -> Value:
    """What was read, as it is written."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: message_of(part) for name, part in value._asdict().items()}
    return [message_of(one) for one in value] if isinstance(value, tuple | list) else value


def parted(all_of_them: Iterable[Value], may: Callable[[Value], bool]) -> tuple[list[Value], list[Value]]:
    """(those that may, the others), each in their order."""
    kept: list[Value] = []
    denied: list[Value] = []
    for one in all_of_them:
        (kept if may(one) else denied).append(one)
    return kept, denied
