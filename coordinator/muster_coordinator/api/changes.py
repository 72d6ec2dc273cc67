"""A change of the cluster that a request asks for: judged by the image here, proposed, and answered with its outcome.

Problem: topics, configs, ACLs, quotas, users, moves, features and brokers are changed by commands of the controller's
log, which alone decides. What it is sure to refuse should not be written to it, but the image here may be late.
Mechanism, the same for all of them: `Doubt.judge` makes the command, or refuses it by an image that is shown to be
current where that matters; `fit` applies the log's own rule to that image; `propose` has the controller's leader
propose it, and its result becomes the part's `Outcome`. A request of several parts judges each by itself (`gather`).
What it does not do: rights, which each handler judges first; the audit's line, which is told once for the whole answer
(`audit`).
"""

from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.doubt import UNPROVEN
from muster_coordinator.controller.commands import Command, CommandResult
from muster_coordinator.controller.image import ClusterImage, Topic
from muster_coordinator.controller.misfit import MisfitError
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.replica.partitions.surface import Surface
from muster_coordinator.wire.schema import Value


class Outcome(NamedTuple):
    """The answer for one part of a request."""

    code: Code
    message: str | None = None

    def by_name(self) -> "Outcome":
        """To a client that named the topic by its name: the topic was deleted after the command was made."""
        gone = self.code is Code.UNKNOWN_TOPIC_ID
        return Outcome(Code.UNKNOWN_TOPIC_OR_PARTITION) if gone else self


DONE = Outcome(Code.NONE)
NO_TIME = Outcome(Code.REQUEST_TIMED_OUT, "timeoutMs leaves no time; nothing was changed")
NOT_FORMED = "the cluster is not formed yet"


def refused(error: ApiError) -> Outcome:
    """Of a part that was not proposed."""
    return Outcome(error.code, error.message)


def until_ms(surface: Surface, request: Value) -> int:
    """When the request's own time is over, on the monotonic clock. Counted from its arrival: its parts are judged in
    several turns of the loop."""
    timeout_ms: int = request.timeout_ms
    return surface.loop.monotonic_ms() + min(timeout_ms, limits.ADMIN_TIMEOUT_MS_MAX)


def fit(image: ClusterImage, command: Command, rule: Callable[[], object]) -> None:
    """Raises ApiError where the log would refuse the command by this image. `rule`: what applies it, and raises
    MisfitError."""
    early = level_refusal(image, command)
    if early is not None:
        raise ApiError(Code(early.error), early.message)
    try:
        rule()
    except MisfitError as misfit:
        raise ApiError(Code(misfit.result.error), misfit.result.message) from misfit


def propose(surface: Surface, command: Command, deadline_ms: int, done: Callable[[Outcome], None]) -> None:
    """Have the controller's leader propose it. The outcome is 41 without a leader, 7 if its fate is unknown then."""

    def decided(result: CommandResult) -> None:
        done(Outcome(Code(result.error), result.message or None))

    surface.submit(command, deadline_ms=deadline_ms, done=decided)


def changeable_topic(name: str, image: ClusterImage | None) -> tuple[Topic, ClusterImage]:
    """The topic, and the image that has it. Raises ApiError 3 or 44."""
    topic = None if image is None else image.topics.get(name)
    if image is None or topic is None:
        raise ApiError(Code.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.internal:
        raise ApiError(Code.POLICY_VIOLATION, f"{name} belongs to the coordinator")
    return topic, image


def place_again(surface: Surface, again: Callable[[], None], done: Callable[[Outcome], None]) -> None:
    """The log refused where replicas were placed: the image here was behind. `done` gets 41 if it may still be."""

    def told(current: bool) -> None:
        if current:
            again()
        else:
            done(Outcome(Code.NOT_CONTROLLER, UNPROVEN))

    surface.when_topics_current(told)
