"""What this start of the replica tells the cluster of itself, told until the cluster has it.

Problem: others reach a replica by what it registered, and it must not call itself ready by an earlier start's
endpoints, which its own log gives it at once. Mechanism: a command of the controller's log, retried until one was
acknowledged; it counts when it is applied here. A rack that could not be told then is told when it can be.

What it does not do: bind a new data folder to a broker (`seats`), or decide what is refused (`controller.brokers`).
"""

from collections.abc import Callable
from dataclasses import replace

from muster_coordinator.controller.commands import CommandResult, RegisterBroker
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.errors import Code
from muster_coordinator.ports import Loop
from muster_coordinator.replica import limits
from muster_coordinator.replica.bootstrap.identity import Identity
from muster_coordinator.replica.controller.controller_client import ControllerClient
from muster_coordinator.replica.settings import NodeSettings

REGISTER_RETRY_MS = 500


def registration_of(settings: NodeSettings, identity: Identity) -> RegisterBroker:
    """What this start of the replica tells the cluster of itself."""
    return RegisterBroker(
        broker=settings.broker,
        replica_uuid=identity.replica_uuid,
        incarnation=identity.incarnation,
        endpoints=settings.endpoints,
        admin=settings.admin,
        feature_max=settings.feature_max,
        rack=settings.rack,
    )


class Registration:
    """Of this replica, since its start. All calls are made on the loop."""

    def __init__(
        self, own: RegisterBroker, loop: Loop, client: ControllerClient, image: Callable[[], ClusterImage | None]
    ) -> None:
        self._own = own
        self._loop = loop
        self._client = client
        self._image = image
        self._acknowledged = False
        self._applied = False
        self._refusal = ""
        self._telling_rack = False

    def register(self) -> None:
        """Register this broker, and retry until it is registered once since the start. Registering also clears a
        draining mark (architecture "Drain")."""
        if self._acknowledged:
            return
        command = self._own
        if level_refusal(self._image(), command) is not None:
            command = replace(command, rack="")

        def done(result: CommandResult) -> None:
            self._acknowledged = result.error == Code.NONE
            if self._acknowledged:
                self._refusal = ""
                return
            if result.error not in (Code.NOT_CONTROLLER, Code.REQUEST_TIMED_OUT):
                self._refusal = result.message
            self._loop.call_at(self._loop.monotonic_ms() + REGISTER_RETRY_MS, self.register)

        self._submit(command, done)

    def tell_rack(self) -> None:
        """Register again if the cluster does not know this start's rack: it could not be told below its level, or an
        answer that came late told that there is none."""
        image, command = self._image(), self._own
        known = None if image is None else image.brokers.get(command.broker)
        if not self._acknowledged or self._telling_rack or known is None or known.rack == command.rack:
            return
        if known.incarnation != command.incarnation or level_refusal(image, command) is not None:
            return
        self._telling_rack = True

        def again() -> None:
            self._telling_rack = False
            self.tell_rack()

        def done(_result: CommandResult) -> None:
            """Whatever it is: the image shows whether the rack is known."""
            self._loop.call_at(self._loop.monotonic_ms() + REGISTER_RETRY_MS, again)

        self._submit(command, done)

    def lacks(self) -> str:
        """What is left to be done before this start is registered, in words; "" when it is."""
        if not self._acknowledged:
            return self._refusal or "not registered yet"
        image = self._image()
        if image is not None and not self._is_applied(image):
            return "its registration is not applied here yet"
        return ""

    def _is_applied(self, image: ClusterImage) -> bool:
        """Whether this start's registration is applied here. The image that the replica's own log gives at its start
        has an earlier one, with the endpoints of then. What becomes of the broker later is no matter of the start."""
        known, own = image.brokers.get(self._own.broker), self._own
        if known is not None and known.replica_uuid == own.replica_uuid and known.incarnation >= own.incarnation:
            self._applied = True
        return known is not None and self._applied

    def _submit(self, command: RegisterBroker, done: Callable[[CommandResult], None]) -> None:
        self._client.submit(command, deadline_ms=self._loop.monotonic_ms() + limits.FORWARD_TIMEOUT_MS, done=done)
