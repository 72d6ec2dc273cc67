"""Requests larger volumes. Whether a volume may grow is decided by its StorageClass, so a refusal is a valid answer.

A refusal is reported and does not stop the pass; the same growth is requested again after BACKOFF_MAX_MS. Refusals are
remembered in memory only: after a restart the operator requests once more.
"""

from dataclasses import dataclass

from muster_operator.api.conditions import Reason
from muster_operator.errors import Refused
from muster_operator.kube.answers import clip
from muster_operator.kube.kinds import CLAIM
from muster_operator.limits import BACKOFF_MAX_MS, NOT_GROWN_MAX
from muster_operator.plan.actions import GrowClaim
from muster_operator.ports import Clock, Kube
from muster_operator.runtime.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """The API server's refusal to grow a claim to `size`; no new request before `until_ms` (monotonic)."""

    size: str
    error: Refused
    until_ms: int


class ClaimGrowth:
    def __init__(self, *, kube: Kube, clock: Clock, metrics: Metrics) -> None:
        self._kube = kube
        self._clock = clock
        self._metrics = metrics
        self._refusals: dict[str, _Refusal] = {}  # by the claim's uid; at most NOT_GROWN_MAX

    async def grow(self, action: GrowClaim, namespace: str) -> bool | Refused:
        """True: written. False: the claim is gone. Or the refusal, which may be a remembered one. Raises Transient.

        Only the size is written: every other field of a claim belongs to Kubernetes and its user.
        """
        before = self._refusals.get(action.uid)
        if before is not None and before.size == action.size and self._clock.monotonic_ms() < before.until_ms:
            return before.error
        self._refusals.pop(action.uid, None)
        metadata = {"name": action.name, "namespace": namespace, "uid": action.uid}
        size = {"resources": {"requests": {"storage": action.size}}}
        try:
            return await self._kube.patch(
                {"apiVersion": CLAIM.api_version, "kind": CLAIM.kind, "metadata": metadata, "spec": size}
            )
        except Refused as refused:
            message = f"volume claim {action.name} cannot be made {action.size}: {refused.message}"
            error = Refused(Reason.STORAGE_REFUSED, clip(message))
        while len(self._refusals) >= NOT_GROWN_MAX:
            del self._refusals[next(iter(self._refusals))]
        until_ms = self._clock.monotonic_ms() + BACKOFF_MAX_MS
        self._refusals[action.uid] = _Refusal(size=action.size, error=error, until_ms=until_ms)
        self._metrics.action(type(action).__name__, "failed")
        return error
