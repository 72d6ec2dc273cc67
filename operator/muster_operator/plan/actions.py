"""The closed set of things the operator may do to the world, as values; `runtime.execute` alone does them.

At most one *disruptive* action (EvictPod, DeletePod) is in a plan. Every action is idempotent and is planned anew from
what is seen next, so a crash between any two of them needs no memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster_operator.world.group import Leaver


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Server-side apply of a complete intent under `naming.FIELD_MANAGER`, force."""

    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsureSecret:
    """Create the Secret with a fresh random token under `key` unless it exists; its value is never read into a plan."""

    name: str
    namespace: str
    key: str
    labels: Mapping[str, str]
    owner_reference: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteChild:
    """Delete an object of ours that is no longer wanted. `uid` is sent as a precondition."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """`POST /v1/drain` on one coordinator pod."""

    pod: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrain:
    pod: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictPod:
    """Eviction with a uid precondition; 429 (the disruption budget) is an answer, not an error."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Only for a pod that is broken and so protected by nobody's budget (image, crash loop); uid precondition."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveMembers:
    """LeaveGroup v3+ at the group's coordinator, for members that were recorded in pods which are gone for good."""

    group_id: str
    members: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowClaim:
    """A volume claim that shall ask for more; uid precondition. Whether it may is its StorageClass's decision."""

    name: str
    uid: str
    size: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRollout:
    """A StatefulSet's partition moved to where its roll-out is, or back; uid precondition."""

    name: str
    uid: str
    partition: int
    before: int | None
    """The partition to come back to; None: it has come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The number of pods of a workload that somebody else made, through its scale subresource."""

    api_version: str
    kind: str
    name: str
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A workload that somebody else made is told to replace its pods: one field, and nothing else of it."""

    api_version: str
    kind: str
    name: str
    at: str


Action = (
    Apply
    | EnsureSecret
    | DeleteChild
    | GrowClaim
    | Drain
    | Undrain
    | EvictPod
    | DeletePod
    | RemoveMembers
    | HoldRollout
    | Scale
    | Restart
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One events.k8s.io series per (object, reason). Warning only if somebody should act."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    actions: tuple[Action, ...]
    """In this order; the first that fails ends the pass (the next pass plans anew)."""
    status: Mapping[str, Any]
    """The whole `.status` that we own, applied after the actions, also when one failed."""
    events: tuple[Event, ...]
    requeue_after_ms: int
    """Look again at the latest then, even if nothing is seen to change."""
    decision: str
    """One CamelCase word: what this pass is doing (Converged, CreatingChildren, DrainingPod, WaitingForPod, ...)."""
    reason: str
    """The sentence behind it; goes to log and condition."""
