"""The closed set of the operator's actions, as values; only `runtime.execute` carries them out.

Invariant: a plan has at most one *disruptive* action (EvictPod, DeletePod). Every action is idempotent and is planned
anew from the next observation, so a crash between two of them needs no memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster_operator.resources.user_secret import ClientSettings
from muster_operator.world.group import Leaver
from muster_operator.world.kafka_object import KafkaChange


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordFrom:
    """Where a password is: a Secret, and the version of it that the plan was made for."""

    secret: str
    key: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Server-side apply of a complete intent under `naming.FIELD_MANAGER`, with force."""

    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsureSecret:
    """Create the Secret with a fresh random token under `key` unless it exists; a plan never contains its value."""

    name: str
    namespace: str
    key: str
    labels: Mapping[str, str]
    owner_reference: Mapping[str, Any]
    beside: Mapping[str, str] = field(default_factory=dict)
    """What else is in it: nothing secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateSecret:
    """Put a fresh random value before the first line of a Secret of ours, or leave only that line (`keep_old` False).
    Only for the very version that was planned for; a plan never contains the value."""

    name: str
    uid: str
    version: str
    key: str
    keep_old: bool
    annotations: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSecret:
    """Metadata of a Secret of ours that is made if there is none: `version` "" below."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    owner_reference: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAuthority:
    """One step of the life of a CA of the operator's, for the very version that was planned for.

    create: the first. next: a successor that is trusted and issues nothing yet. promote: the successor issues from now
    on, and the one before is still trusted; its key is gone. forget: the one before is not trusted any more."""

    secret: NewSecret
    version: str
    step: str
    common_name: str
    days: int
    rotated_for: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishTrust:
    """Write what is to be trusted of a CA into the Secret for clients and pods."""

    secret: NewSecret
    version: str
    authority: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueCertificate:
    """A fresh key and a certificate of the CA in Secret `authority`."""

    secret: NewSecret
    version: str
    authority: str
    common_name: str
    hosts: tuple[str, ...]
    addresses: tuple[str, ...]
    days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteChild:
    """Delete a child object that is no longer wanted. `uid` is sent as a precondition."""

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
    """Eviction with a uid precondition; 429 (a disruption budget) is an answer, not an error."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Delete a broken pod (image, crash loop), which no disruption budget protects; with a uid precondition."""

    name: str
    uid: str
    at_once: bool = False
    """Without waiting for its node: it is gone, or a person says that the pod's volume never comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceReplica:
    """`POST /v1/replicas/{id}/replace` at the controller's leader: the data folder is gone for good (ADR 39). A refusal
    does not end the pass."""

    pod: str
    broker: int
    folder: str
    leader: int
    """Broker that led the controller group when this was planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteClaim:
    """Delete the volume claim of a data folder that was declared gone for good, or of a coordinator that has left, with
    a uid precondition. A refusal does not end the pass."""

    name: str
    uid: str
    of_lost: bool = True
    """False: of a coordinator that has left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decommission:
    """`POST /v1/replicas/{id}/decommission`: the coordinator is to hand over what it holds and to leave, or to stay
    after all (ADR 47). A refusal does not end the pass."""

    pod: str
    broker: int
    departing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseReplication:
    """`POST /v1/replication-factor` at the controller's leader: every Raft group is to have so many replicas (ADR 48).
    A refusal does not end the pass."""

    factor: int
    leader: int
    """Broker that led the controller group when this was planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveMembers:
    """LeaveGroup v3+ at the group's coordinator, for members that were recorded in pods which are gone for good."""

    group_id: str
    members: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowClaim:
    """Raise the size that a volume claim requests, with a uid precondition. Its StorageClass decides whether it
    grows."""

    name: str
    uid: str
    size: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRollout:
    """Move a StatefulSet's `partition` to the position of its roll-out, or restore it; with a uid precondition."""

    name: str
    uid: str
    partition: int
    before: int | None
    """The `partition` to restore later; None: it is restored by this action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Set the replica count of the workload in `workloadRef`, through its scale subresource."""

    api_version: str
    kind: str
    name: str
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Make the workload in `workloadRef` replace its pods, by writing one field and no other."""

    api_version: str
    kind: str
    name: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFinalizer:
    """Add `naming.FINALIZER` to the object of the plan, or take it away; nothing else of it is changed."""

    present: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeKafka:
    """One change in the object's cluster."""

    change: KafkaChange
    password: PasswordFrom | None = None
    """For `SetPassword`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """The certificate of a User, of the CA in Secret `authority`."""

    authority: str
    authority_owner: str
    """uid of the CA's owner."""
    subject: str
    """As RFC 4514 writes it."""
    days: int
    fresh: bool
    """False: the Secret has one that is good, and keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteUserSecret:
    """The Secret of a User with its credentials and client settings. Its password is the one that it has, one of
    `password`, or a new random one; a plan never contains it. With `certificate` it has none."""

    name: str
    settings: ClientSettings
    settings_hash: str
    labels: Mapping[str, str]
    owner_reference: Mapping[str, Any]
    password: PasswordFrom | None
    """A Secret of the user's own."""
    certificate: ClientCertificate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteUserSecret:
    """The Secret of a User that has another one, or none, by now. One that is not this User's stays."""

    name: str


Action = (
    Apply
    | EnsureSecret
    | RotateSecret
    | ChangeAuthority
    | PublishTrust
    | IssueCertificate
    | DeleteChild
    | GrowClaim
    | Drain
    | Undrain
    | EvictPod
    | DeletePod
    | ReplaceReplica
    | DeleteClaim
    | Decommission
    | RaiseReplication
    | RemoveMembers
    | HoldRollout
    | Scale
    | Restart
    | SetFinalizer
    | ChangeKafka
    | WriteUserSecret
    | DeleteUserSecret
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One events.k8s.io series per (object, reason). Warning only if a user should act."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    actions: tuple[Action, ...]
    """Executed in this order; the first failure ends the pass (the next pass plans anew)."""
    status: Mapping[str, Any]
    """The whole `.status` that we own; applied after the actions, and also if one failed."""
    events: tuple[Event, ...]
    requeue_after_ms: int
    """Longest time until the next pass, if no change triggers one earlier."""
    decision: str
    """One CamelCase word for the result of this pass (Converged, CreatingChildren, DrainingPod, WaitingForPod, ...)."""
    reason: str
    """A sentence that explains the decision, for log and conditions."""
    when_done: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the status that become true when every action was carried out."""
