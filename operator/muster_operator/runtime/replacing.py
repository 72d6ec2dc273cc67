"""Asks the coordinators to replace a lost replica or to let one leave, and the API server to delete the claim that is
in the way or was left behind. A refusal is a valid answer to all: there may be no majority now, or no right.

A refusal is reported and does not stop the pass, so a roll-out goes on beside it; it is asked again after a back-off of
its own. Refusals are remembered in memory only: after a restart the operator asks once more.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from muster_operator.errors import OperatorError
from muster_operator.kube.kinds import CLAIM
from muster_operator.limits import BACKOFF_FIRST_MS, BACKOFF_MAX_MS, REFUSED_REPLACEMENTS_MAX
from muster_operator.plan.actions import Decommission, DeleteClaim, RaiseReplication, ReplaceReplica
from muster_operator.ports import Admin, Clock, Kube
from muster_operator.runtime.metrics import Metrics
from muster_operator.world.admin_at import AdminAt


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    error: OperatorError
    wait_ms: int
    until_ms: int
    """Monotonic: no new request before."""


class Replacing:
    def __init__(self, *, kube: Kube, admin: Admin, clock: Clock, metrics: Metrics) -> None:
        self._kube, self._admin, self._clock, self._metrics = kube, admin, clock, metrics
        self._refusals: dict[str, _Refusal] = {}  # by folder, claim, or who leaves; at most REFUSED_REPLACEMENTS_MAX

    async def replace(self, action: ReplaceReplica, *, hosts: dict[int, AdminAt], token: str) -> OperatorError | None:
        """None: the folder is gone for good, now or before. Or the refusal, which may be a remembered one."""

        async def ask() -> bool:
            await self._admin.replace(
                hosts=hosts, token=token, first=action.leader, broker=action.broker, folder=action.folder
            )
            return True

        found = await self._attempt(action.folder, type(action).__name__, ask)
        return found if isinstance(found, OperatorError) else None

    async def decommission(
        self, action: Decommission, *, owner: str, hosts: Sequence[AdminAt], token: str
    ) -> OperatorError | None:
        """None: it is marked as wanted, now or before, or has left. Or the refusal, which may be a remembered one."""

        async def ask() -> bool:
            await self._admin.decommission(hosts=hosts, token=token, broker=action.broker, departing=action.departing)
            return True

        done = await self._attempt(f"{owner}/{action.broker}/{action.departing}", type(action).__name__, ask)
        return done if isinstance(done, OperatorError) else None

    async def raise_replication(
        self, action: RaiseReplication, *, owner: str, hosts: dict[int, AdminAt], token: str
    ) -> OperatorError | None:
        """None: it is wanted, now or before. Or the refusal, which may be a remembered one."""

        async def ask() -> bool:
            await self._admin.raise_replication(hosts=hosts, token=token, first=action.leader, factor=action.factor)
            return True

        done = await self._attempt(f"{owner}/{action.factor} replicas", type(action).__name__, ask)
        return done if isinstance(done, OperatorError) else None

    async def delete_claim(self, action: DeleteClaim, namespace: str) -> bool | OperatorError:
        """True: deleted. False: it is gone, or another claim has its name by now."""

        async def ask() -> bool:
            return await self._kube.delete(
                api_version=CLAIM.api_version, kind=CLAIM.kind, namespace=namespace, name=action.name, uid=action.uid
            )

        return await self._attempt(action.uid, type(action).__name__, ask)

    async def _attempt(self, key: str, name: str, ask: Callable[[], Awaitable[bool]]) -> bool | OperatorError:
        before = self._refusals.get(key)
        if before is not None and self._clock.monotonic_ms() < before.until_ms:
            return before.error
        try:
            done = await ask()
        except OperatorError as error:
            self._remember(key, error, BACKOFF_FIRST_MS if before is None else min(2 * before.wait_ms, BACKOFF_MAX_MS))
            self._metrics.action(name, "failed")
            return error
        self._refusals.pop(key, None)
        return done

    def _remember(self, key: str, error: OperatorError, wait_ms: int) -> None:
        self._refusals.pop(key, None)
        while len(self._refusals) >= REFUSED_REPLACEMENTS_MAX:
            del self._refusals[next(iter(self._refusals))]
        self._refusals[key] = _Refusal(error=error, wait_ms=wait_ms, until_ms=self._clock.monotonic_ms() + wait_ms)
