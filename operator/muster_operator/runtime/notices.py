"""Events about namespaces that are not served, written in the operator's own namespace.

Objects of such a namespace carry a condition while their status can still be written; in a namespace that was deleted,
or in which the operator lost its whole role, nothing can be written. So the leader also records an Event about its
Lease.
"""

from muster_operator import naming
from muster_operator.api.conditions import Reason
from muster_operator.errors import OperatorError
from muster_operator.kube.kinds import LEASE
from muster_operator.limits import NOTICE_MS
from muster_operator.plan.actions import Event
from muster_operator.ports import Clock, Kube
from muster_operator.runtime.recorder import Recorder
from muster_operator.runtime.scopes import Scopes
from muster_operator.runtime.waiting import pause


class Notices:
    def __init__(
        self,
        *,
        kube: Kube,
        recorder: Recorder,
        scopes: Scopes,
        clock: Clock,
        own_namespace: str,
        lease_name: str = naming.LEASE_NAME,
    ) -> None:
        self._lease_name = lease_name
        self._kube, self._recorder, self._scopes, self._clock = kube, recorder, scopes, clock
        self._own_namespace = own_namespace

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.tell()
            await pause(NOTICE_MS)

    async def tell(self) -> None:
        """One Event per scope that is not served now; it becomes a series while that lasts."""
        now = self._clock.monotonic_ms()
        found = [error for one in self._scopes if (error := self._scopes.obstacle(one.namespace, now)) is not None]
        if not found:
            return
        try:
            lease = await self._kube.get(
                api_version=LEASE.api_version, kind=LEASE.kind, namespace=self._own_namespace, name=self._lease_name
            )
        except OperatorError:
            return  # the election loop reports it if that lasts
        if lease is None:
            return  # without leader election there is no Lease
        for error in found:
            event = Event(reason=Reason.NAMESPACE_NOT_SERVED, message=error.message, warning=True)
            await self._recorder.emit({"apiVersion": LEASE.api_version, "kind": LEASE.kind, **lease}, event)
