"""Which child objects of a custom resource must be created, changed or deleted.

Wanted and live objects are compared here (`drift`), so that a converged object costs no request. If an object of a
wanted name belongs to another owner, nothing is planned: a forced apply would take it over. `resources.surplus` selects
what is deleted; deletions carry the uid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster_operator.drift import drifted
from muster_operator.plan.actions import Action, Apply, DeleteChild, EnsureSecret
from muster_operator.resources.owned import is_owned_by
from muster_operator.world.views import OwnerView, Unknown

Manifest = Mapping[str, Any]
Live = Mapping[tuple[str, str], Manifest]

WORKLOAD = ("ConfigMap", "StatefulSet")
"""While one of these differs from the intent, no pod is restarted: the StatefulSet's revision may not be ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenPlan:
    actions: tuple[Action, ...]
    taken: tuple[str, ...]
    """`Kind name` of existing objects that belong to another owner; then `actions` is empty."""
    unknown: str | None
    """Why the live objects could not be observed; then `actions` is empty."""
    workload_drifted: bool
    reason: str

    @property
    def held(self) -> bool:
        """No pod may be restarted in this pass."""
        return bool(self.taken) or self.unknown is not None or self.workload_drifted


def plan_children(
    owner: OwnerView,
    live: Live | Unknown,
    desired: Sequence[Manifest],
    *,
    secrets: Sequence[EnsureSecret] = (),
    surplus: Sequence[Manifest] = (),
) -> ChildrenPlan:
    """`desired` is applied in order, then `surplus` (live objects) is deleted. A Secret counts as existing if `live`
    has its key: its value is never read."""
    if isinstance(live, Unknown):
        return _idle(unknown=live.message, reason=live.message)
    taken = [_name(one) for one in desired if (found := live.get(_key(one))) and not is_owned_by(found, owner)]
    for secret in secrets:
        if (found := live.get(("Secret", secret.name))) and not is_owned_by(found, owner):
            taken.append(f"Secret {secret.name}")
    if taken:
        return _idle(taken=tuple(taken), reason=f"{', '.join(taken)} exists and belongs to another owner")
    actions: list[Action] = []
    why: list[str] = []
    for secret in secrets:
        if ("Secret", secret.name) not in live:
            actions.append(secret)
            why.append(f"Secret {secret.name}: it does not exist")
    workload_drifted = False
    for manifest in desired:
        drift = drifted(live.get(_key(manifest)), manifest)
        if drift is not None:
            actions.append(Apply(manifest=manifest))
            why.append(f"{_name(manifest)}: {drift}")
            workload_drifted = workload_drifted or manifest["kind"] in WORKLOAD
    for doomed in surplus:
        if doomed["metadata"].get("deletionTimestamp") is None:
            kind, name = _key(doomed)
            uid = str(doomed["metadata"]["uid"])
            actions.append(DeleteChild(api_version=doomed["apiVersion"], kind=kind, name=name, uid=uid))
            why.append(f"{kind} {name}: it is not wanted any more")
    return ChildrenPlan(
        actions=tuple(actions),
        taken=(),
        unknown=None,
        workload_drifted=workload_drifted,
        reason="; ".join(why) if why else "everything that belongs to it is as it should be",
    )


def _idle(*, reason: str, taken: tuple[str, ...] = (), unknown: str | None = None) -> ChildrenPlan:
    return ChildrenPlan(actions=(), taken=taken, unknown=unknown, workload_drifted=False, reason=reason)


def _key(manifest: Manifest) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def _name(manifest: Manifest) -> str:
    return " ".join(_key(manifest))
