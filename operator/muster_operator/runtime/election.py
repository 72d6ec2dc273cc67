"""Leader election on one Lease: the next step as a pure decision, and the loop that carries it out.

One operator acts, the others stand by with warm caches. Numbers and rules are client-go's: a Lease of 15 s, renewed
every 2 s, given up after 10 s without a renewal. Another holder's Lease counts as expired once *we* have seen it
unchanged for its duration on our own monotonic clock, so the clocks of two machines need not agree. Every write carries
the resource version that was read: of two candidates one gets a conflict.

A Lease is no fence: a process that slept through its Lease may still have a request in progress. So losing the Lease
ends the process, and every destructive request carries preconditions of its own.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from muster_operator import naming
from muster_operator.errors import Conflict, LeadershipLost, OperatorError
from muster_operator.kube.kinds import LEASE
from muster_operator.limits import LEASE_DURATION_MS, LEASE_RENEW_DEADLINE_MS, LEASE_RETRY_MS
from muster_operator.ports import Clock, Kube
from muster_operator.runtime.recorder import micro_time

_log = logging.getLogger("muster.operator.election")
Manifest = Mapping[str, Any]
_POD_SUFFIXES = 2


class Step(StrEnum):
    CREATE = "create"
    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The last observed content of the Lease, and since when it has been unchanged on our monotonic clock."""

    holder: str
    version: str
    since_ms: int


def decide(lease: Manifest | None, *, identity: str, seen: Seen | None, now_ms: int) -> tuple[Step, str]:
    """(step, reason). `seen` must be the view of this lease (`see`)."""
    if lease is None:
        return Step.CREATE, "there is no Lease"
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    if holder == identity:
        return Step.RENEW, "we hold it"
    if not holder:
        return Step.TAKE, "nobody holds it"
    duration_ms = int(spec.get("leaseDurationSeconds") or 0) * 1_000 or LEASE_DURATION_MS
    if seen is not None and now_ms - seen.since_ms >= duration_ms:
        return Step.TAKE, f"{holder} has not renewed it for {(now_ms - seen.since_ms) / 1_000:.0f} s"
    return Step.WAIT, f"{holder} holds it"


def see(lease: Manifest | None, seen: Seen | None, now_ms: int) -> Seen | None:
    """The view after reading `lease`: `since_ms` is kept while the Lease is unchanged."""
    if lease is None:
        return None
    version = str(lease["metadata"].get("resourceVersion"))
    holder = (lease.get("spec") or {}).get("holderIdentity") or ""
    if seen is not None and seen.version == version and seen.holder == holder:
        return seen
    return Seen(holder=holder, version=version, since_ms=now_ms)


def lease_spec(lease: Manifest | None, step: Step, *, identity: str, duration_ms: int, wall_ms: int) -> dict[str, Any]:
    """The spec that `step` writes over `lease`."""
    now = micro_time(wall_ms)
    old = (lease or {}).get("spec") or {}
    return {
        "holderIdentity": identity,
        "leaseDurationSeconds": duration_ms // 1_000,
        "renewTime": now,
        "acquireTime": old.get("acquireTime", now) if step is Step.RENEW else now,
        "leaseTransitions": int(old.get("leaseTransitions") or 0) + (step is Step.TAKE),
    }


def of_one_deployment(one: str, other: str) -> bool:
    """Both are names of pods of the same Deployment, `<deployment>-<template hash>-<random>`."""
    return one.count("-") >= _POD_SUFFIXES and one.rsplit("-", _POD_SUFFIXES)[0] == other.rsplit("-", _POD_SUFFIXES)[0]


class Elector:
    """`acquire`, then `hold` until it raises LeadershipLost or is cancelled, then `release`."""

    def __init__(
        self, kube: Kube, clock: Clock, *, namespace: str, identity: str, name: str = naming.LEASE_NAME
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self.identity = identity
        self._seen: Seen | None = None
        self._seen_former: Seen | None = None
        self._holder = ""
        self._lease: Manifest | None = None

    async def acquire(self) -> None:
        """Return once we hold the Lease. API errors are retried."""
        while not await self.try_once():
            await pause(LEASE_RETRY_MS)

    async def try_once(self) -> bool:
        """One read and at most one write; True if we hold the Lease now. If our Lease has a name of its own, the Lease
        of the common name is read too: a process of an older release, which used that name, may still act."""
        try:
            if self._name != naming.LEASE_NAME and await self._former_acts():
                return False
            lease = await self._kube.get(
                api_version=LEASE.api_version, kind=LEASE.kind, namespace=self._namespace, name=self._name
            )
            now = self._clock.monotonic_ms()
            self._seen = see(lease, self._seen, now)
            step, reason = decide(lease, identity=self.identity, seen=self._seen, now_ms=now)
            holder = self._seen.holder if self._seen else ""
            if holder != self._holder:
                self._holder = holder
                _log.info("lease", extra={"step": step, "reason": reason})
            if step is Step.WAIT:
                return False
            return await self._write(lease, step)
        except OperatorError as error:
            _log.warning("election step failed", extra={"error": str(error)})
            return False

    async def _former_acts(self) -> bool:
        """A pod of our own Deployment holds the Lease of the common name: an upgrade is in progress."""
        lease = await self._kube.get(
            api_version=LEASE.api_version, kind=LEASE.kind, namespace=self._namespace, name=naming.LEASE_NAME
        )
        now = self._clock.monotonic_ms()
        self._seen_former = see(lease, self._seen_former, now)
        step, _ = decide(lease, identity=self.identity, seen=self._seen_former, now_ms=now)
        holder = self._seen_former.holder if self._seen_former is not None else ""
        return step is Step.WAIT and of_one_deployment(self.identity, holder)

    async def hold(self) -> None:
        """Renew until the renew deadline passes without success. Raises LeadershipLost."""
        renewed = self._clock.monotonic_ms()
        while True:
            await pause(LEASE_RETRY_MS)
            left_ms = LEASE_RENEW_DEADLINE_MS - (self._clock.monotonic_ms() - renewed)
            if left_ms > 0 and await self._renew(left_ms):
                renewed = self._clock.monotonic_ms()
            elif self._clock.monotonic_ms() - renewed >= LEASE_RENEW_DEADLINE_MS:
                raise LeadershipLost("LeaseLost", "the Lease could not be renewed in time")

    async def _renew(self, left_ms: int) -> bool:
        """False: this attempt failed. Raises LeadershipLost if another process holds the Lease by now."""
        try:
            async with asyncio.timeout(left_ms / 1_000):
                return await self.renew_once()
        except TimeoutError:
            return False

    async def renew_once(self) -> bool:
        """One renewal as `hold` does it: from our last write, after a conflict from a fresh read."""
        try:
            if self._lease is not None:
                try:
                    return await self._write(self._lease, Step.RENEW)
                except Conflict:
                    self._lease = None
            lease = await self._kube.get(
                api_version=LEASE.api_version, kind=LEASE.kind, namespace=self._namespace, name=self._name
            )
            holder = ((lease or {}).get("spec") or {}).get("holderIdentity") or ""
            if lease is not None and holder != self.identity:
                raise LeadershipLost("LeaseTaken", f"the Lease is held by {holder or 'nobody'}")
            return await self._write(lease, Step.CREATE if lease is None else Step.RENEW)
        except LeadershipLost:
            raise
        except OperatorError as error:
            _log.warning("renewal failed", extra={"error": str(error)})
            return False

    async def release(self) -> None:
        """Release the Lease, so that another process need not wait for its expiry. Best effort."""
        try:
            lease = await self._kube.get(
                api_version=LEASE.api_version, kind=LEASE.kind, namespace=self._namespace, name=self._name
            )
            if lease is None or (lease.get("spec") or {}).get("holderIdentity") != self.identity:
                return
            spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            await self._kube.replace({**lease, "spec": spec})
        except OperatorError as error:
            _log.warning("lease not released", extra={"error": str(error)})

    async def _write(self, lease: Manifest | None, step: Step) -> bool:
        spec = lease_spec(
            lease, step, identity=self.identity, duration_ms=LEASE_DURATION_MS, wall_ms=self._clock.wall_ms()
        )
        if lease is None:
            made = await self._kube.create(
                {
                    "apiVersion": LEASE.api_version,
                    "kind": LEASE.kind,
                    "metadata": {"name": self._name, "namespace": self._namespace},
                    "spec": spec,
                }
            )
            self._lease = None
            return made
        self._lease = await self._kube.replace({**lease, "spec": spec})
        self._seen = see(self._lease, None, self._clock.monotonic_ms())
        return True


async def pause(milliseconds: int) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(milliseconds / 1_000):
            await asyncio.Event().wait()
