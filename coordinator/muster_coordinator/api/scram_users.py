"""DescribeUserScramCredentials and AlterUserScramCredentials: users and their passwords (KIP-554, ADR 52).

A client makes the iterations of a password and sends the result; what is proposed has only the two keys that are made
of it (`security.scram`). Each user may be named once in a request, as in Kafka; unlike there, its changes are one
command for each user, so that some may be done and others not, each told for itself. Who is not there is said only once
this replica is known not to be behind. What this does not do: show salts or keys to anybody.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.changes import NOT_FORMED, Outcome, fit, propose, refused
from muster_coordinator.api.doubt import Doubt
from muster_coordinator.api.gather import gather_few, in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import (
    DeleteScramCredential,
    NewScramCredential,
    SetScramCredential,
)
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.scram_credentials import delete_credential, set_credential
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.ports import Rand
from muster_coordinator.security.limits import SCRAM_SECRET_BYTES
from muster_coordinator.security.scram import (
    ScramMechanism,
    credential_error,
    credential_of,
    salted_password_error,
    user_name_error,
)
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

TWICE = "A user credential cannot be altered twice in the same request"
_NUMBERS = frozenset(mechanism.value for mechanism in ScramMechanism)
_ABSENT = frozenset((Code.RESOURCE_NOT_FOUND,))
Change = SetScramCredential | DeleteScramCredential


class ScramUsers:
    """Handlers of both. `rand` must be one that nobody can predict."""

    def __init__(self, services: Services, rand: Rand) -> None:
        self._services = services
        self._rand = rand

    # -- describing

    def describe(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """DescribeUserScramCredentials v0; null or no users: all of them."""
        code = self._services.cluster_code(context, Operation.DESCRIBE)
        if code is not Code.NONE:
            reply({"error_code": code, "error_message": None, "results": ()})
            return
        doubt = Doubt(self._services.surface, Code.REQUEST_TIMED_OUT, _ABSENT)
        self._describe(request.users or (), doubt, reply)

    def _describe(self, users: tuple[Value, ...], doubt: Doubt, reply: Exchange) -> None:
        image = self._services.surface.image()
        times = Counter(user.name for user in users)
        known = {} if image is None else image.scram_users
        names = sorted(known) if not users else list(times)
        missing = any(name not in known for name in names) or not names or image is None
        if missing and doubt.parks(Code.RESOURCE_NOT_FOUND, partial(self._describe, users, doubt, reply)):
            return
        if missing and not doubt.proven:
            reply({"error_code": Code.REQUEST_TIMED_OUT, "error_message": "this replica may be behind", "results": ()})
            return
        results: list[dict[str, Value]] = []

        def one(index: int) -> int:
            results.append(_described(image, names[index], times[names[index]]))
            return 0

        def told() -> None:
            reply({"error_code": Code.NONE, "error_message": None, "results": results})

        in_turns(self._services.surface.loop, len(names), one, told)

    # -- altering

    def alter(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """AlterUserScramCredentials v0."""
        names = [change.name for change in (*request.deletions, *request.upsertions)]
        times = Counter(names)
        order = list(times)
        code = self._services.cluster_code(context, Operation.ALTER)
        changes = {change.name: change for change in (*request.deletions, *request.upsertions)}
        doubt = Doubt(self._services.surface, Code.NOT_CONTROLLER, _ABSENT)

        def begin(index: int, arrived: Callable[[Outcome], None]) -> None:
            name = order[index]
            if code is not Code.NONE:
                arrived(Outcome(code))
            elif times[name] > 1:
                arrived(Outcome(Code.DUPLICATE_RESOURCE, TWICE))
            else:
                self._change(context, changes[name], doubt, arrived)

        def answered(outcomes: list[Outcome]) -> None:
            results = [
                {"user": name, "error_code": told.code, "error_message": told.message}
                for name, told in zip(order, outcomes, strict=True)
            ]
            reply({"results": results})

        gather_few(self._services.surface.loop, len(order), begin, answered)

    def _change(self, context: RequestContext, asked: Value, doubt: Doubt, done: Callable[[Outcome], None]) -> None:
        surface = self._services.surface

        def judge() -> Change:
            command = self._command(asked)
            _judge(surface.image(), command)
            return command

        doubt.judge(
            judge,
            lambda command: propose(surface, command, context.deadline_ms, done),
            lambda error: done(refused(error)),
        )

    def _command(self, asked: Value) -> Change:
        """Raises ApiError, with Kafka's texts where it has any."""
        error = user_name_error(asked.name)
        if error is not None:
            raise ApiError(Code.UNACCEPTABLE_CREDENTIAL, error)
        if asked.mechanism not in _NUMBERS:
            raise ApiError(Code.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if not hasattr(asked, "salted_password"):
            return DeleteScramCredential(user=asked.name, mechanism=asked.mechanism)
        salted, mechanism = bytes(asked.salted_password), ScramMechanism(asked.mechanism)
        made = credential_of(mechanism, salted, bytes(asked.salt), asked.iterations)
        error = credential_error(made) or salted_password_error(salted)
        if error is not None:
            raise ApiError(Code.UNACCEPTABLE_CREDENTIAL, error)
        new = NewScramCredential(
            user=asked.name,
            mechanism=asked.mechanism,
            iterations=asked.iterations,
            salt=made.salt,
            stored_key=made.stored_key,
            server_key=made.server_key,
        )
        return SetScramCredential(credential=new, secret=self._rand.randbytes(SCRAM_SECRET_BYTES))


def _judge(image: ClusterImage | None, command: Change) -> None:
    """Raises ApiError for what the log would refuse with this image."""
    if image is None:
        raise ApiError(Code.NOT_CONTROLLER, NOT_FORMED)
    if isinstance(command, SetScramCredential):
        fit(image, command, partial(set_credential, image, command))
    else:
        fit(image, command, partial(delete_credential, image, command))


def _described(image: ClusterImage | None, name: str, times: int) -> dict[str, Value]:
    held = () if image is None else image.scram_users.get(name, ())
    code, message = Code.NONE, None
    if times > 1:
        code, message = (
            Code.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    elif not held:
        code = Code.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {name}"
    infos = [{"mechanism": one.mechanism.value, "iterations": one.iterations} for one in held]
    return {
        "user": name,
        "error_code": code,
        "error_message": message,
        "credential_infos": infos if code is Code.NONE else (),
    }
