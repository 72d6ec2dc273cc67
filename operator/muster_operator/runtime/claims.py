"""Claims: which operator serves a namespace. A claim is a Lease in that namespace, held by a *release*, not by a
process.

Problem: two operators with overlapping scopes would undo each other's work for ever, and an operator with rights in two
namespaces cannot see a cluster-wide one elsewhere. Mechanism: they meet in the namespace. Before any write about an
object, the Lease of its namespace must be ours. Another release's Lease is left alone until it was not renewed for its
own duration, measured with our clock (`election.decide`); meanwhile nothing is written about the objects there except
one Event.

All processes of a release share its claims (`election` decides which process acts), so a claim outlives a change of
leader, an upgrade and a rollback; for the same reason it is not released at the end of a process. It expires 3 minutes
after the release is gone; deleting the Lease ends it at once.

What it does not do: mutual exclusion. As with any Lease, a process that slept may still have a request in progress;
destructive requests carry preconditions of their own. Operators of releases without claims are not noticed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from muster_operator import naming
from muster_operator.errors import OperatorError, ServedByAnother
from muster_operator.kube.kinds import LEASE
from muster_operator.limits import CLAIM_DURATION_MS, CLAIM_LOOK_MS, CLAIM_RENEW_MS, CLAIM_TRUSTED_MS
from muster_operator.ports import Clock, Kube
from muster_operator.runtime.election import Seen, Step, decide, lease_spec, pause, see

_log = logging.getLogger("muster.operator.claims")


@dataclass(slots=True)
class _Claim:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    seen: Seen | None = None
    held_ms: int | None = None
    """When the last successful renewal was requested; None while the claim is not ours."""
    looked_ms: int | None = None
    error: OperatorError | None = None
    """Why the claim is not ours, as of `looked_ms`."""


class Claims:
    """`holder`: `namespace/Lease` of the release, equal in all its processes."""

    def __init__(self, kube: Kube, clock: Clock, *, holder: str) -> None:
        self._kube, self._clock, self.holder = kube, clock, holder
        self._claims: dict[str, _Claim] = {}

    async def check(self, namespace: str) -> None:
        """Return if the claim of `namespace` is ours. Raises ServedByAnother, or the API server's error."""
        claim = self._claims.setdefault(namespace, _Claim())
        async with claim.lock:
            now = self._clock.monotonic_ms()
            if claim.held_ms is not None and now - claim.held_ms < CLAIM_TRUSTED_MS:
                return
            if claim.error is not None and claim.looked_ms is not None and now - claim.looked_ms < CLAIM_LOOK_MS:
                raise claim.error
            await self._look(namespace, claim)

    async def run(self, namespaces: Callable[[], Iterable[str]]) -> None:
        """Renew until cancelled; claims of namespaces without objects are no longer renewed."""
        while True:
            await pause(CLAIM_RENEW_MS)
            await self.renew(set(namespaces()))

    async def renew(self, namespaces: set[str]) -> None:
        """Renew the claims that we hold of `namespaces` and forget the others. Errors are reported by the passes that
        need the claim."""
        for namespace in self._claims.keys() - namespaces:
            del self._claims[namespace]
        for namespace, claim in list(self._claims.items()):
            if claim.held_ms is None:
                continue
            async with claim.lock:
                try:
                    await self._look(namespace, claim)
                except OperatorError as error:
                    _log.warning("claim not renewed", extra={"on": namespace, "error": str(error)})

    def refused(self) -> int:
        """Number of namespaces that another operator served when last checked."""
        return sum(isinstance(claim.error, ServedByAnother) for claim in self._claims.values())

    async def _look(self, namespace: str, claim: _Claim) -> None:
        """Read the Lease, and write it at most once."""
        asked = self._clock.monotonic_ms()
        before = claim.error
        try:
            await self._claim(namespace, claim, asked)
        except OperatorError as error:
            claim.error, claim.looked_ms = error, asked
            if isinstance(error, ServedByAnother):
                claim.held_ms = None
                if before is None or before.message != error.message:
                    _log.error("not served by us", extra={"on": namespace, "reason": error.message})
            raise
        claim.error, claim.held_ms = None, asked

    async def _claim(self, namespace: str, claim: _Claim, now_ms: int) -> None:
        lease = await self._kube.get(
            api_version=LEASE.api_version, kind=LEASE.kind, namespace=namespace, name=naming.CLAIM_NAME
        )
        claim.seen = see(lease, claim.seen, now_ms)
        step, reason = decide(lease, identity=self.holder, seen=claim.seen, now_ms=now_ms)
        if step is Step.WAIT:
            assert claim.seen is not None, "only a Lease that exists is waited for"
            raise ServedByAnother(
                "ServedByAnother",
                f"the operator {claim.seen.holder} serves namespace {namespace} (Lease {naming.CLAIM_NAME}), so "
                f"{self.holder} leaves it alone",
            )
        spec = lease_spec(
            lease, step, identity=self.holder, duration_ms=CLAIM_DURATION_MS, wall_ms=self._clock.wall_ms()
        )
        if lease is not None:
            await self._kube.replace({**lease, "spec": spec})
        elif not await self._kube.create(
            {
                "apiVersion": LEASE.api_version,
                "kind": LEASE.kind,
                "metadata": {"name": naming.CLAIM_NAME, "namespace": namespace},
                "spec": spec,
            }
        ):
            raise ServedByAnother(
                "ServedByAnother",
                f"another operator just claimed namespace {namespace} (Lease {naming.CLAIM_NAME})",
            )
        if step is not Step.RENEW:
            _log.info("claimed", extra={"on": namespace, "reason": reason})
