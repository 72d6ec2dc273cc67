"""Actions on the workload in `spec.workloadRef`: it is scaled and restarted, and nothing else.

The workload is never owned: no owner reference, no deletion, no apply of any field but these two.

* **Scale**, through its scale subresource, if the ConsumerGroup's `replicas` is set and differs. If absent, the number
  is left to the workload, or its autoscaler. A StatefulSet is scaled down only after the leaving pods are recorded
  (`plan.departing`), as one of our own is; a restart waits for that too, since it moves members.
* **Restart**: annotation `muster.dev/restarted-at` goes into its pod template, or `spec.restartAt` into a Rollout,
  which takes only a time. Each requested restart happens once: `status.restartedAt` records that the workload was seen
  with it, so a client that later overwrites the workload does not cause another restart.

Nothing is done to a workload that cannot be used (missing, or a child of the operator's objects), or that an older
ConsumerGroup refers to: two objects would scale it back and forth.
"""

from datetime import UTC, datetime

from muster_operator.api.conditions import Reason
from muster_operator.api.workload import ROLLOUT
from muster_operator.plan.actions import Restart, Scale
from muster_operator.plan.conditions import RESTARTED_AT_CHARS_MAX
from muster_operator.plan.departing import Departing
from muster_operator.world.group import GroupWorld
from muster_operator.world.views import ReferencedView

Move = Scale | Restart


def moves(world: GroupWorld, recorded: Departing) -> tuple[Move, ...]:
    """The actions on it now, if the object is not paused."""
    found = world.referenced
    if not isinstance(found, ReferencedView) or world.workload_elder is not None or recorded.held is not None:
        return ()
    done: list[Move] = []
    wanted = world.wanted
    if wanted is not None and wanted != found.replicas:
        done.append(Scale(api_version=found.api_version, kind=found.kind, name=found.name, replicas=wanted))
    at = _asked(world, found)
    if at is not None and not is_told(world):
        done.append(Restart(api_version=found.api_version, kind=found.kind, name=found.name, at=at))
    return tuple(done)


def described(world: GroupWorld, done: tuple[Move, ...]) -> tuple[Reason, str] | None:
    """The actions in words, for a condition."""
    found = world.referenced
    if not done or not isinstance(found, ReferencedView):
        return None
    told = [
        f"{found.title} is scaled from {found.replicas} to {one.replicas}"
        if isinstance(one, Scale)
        else f"{found.title} is told to restart"
        for one in done
    ]
    return (Reason.SCALING if isinstance(done[0], Scale) else Reason.ROLLING_OUT), "; ".join(told)


def is_told(world: GroupWorld) -> bool:
    """The requested restart has reached the workload, now or earlier."""
    asked, found = world.owner.restarted_at, world.referenced
    if asked is None or world.owner.status.get("restartedAt") == asked[:RESTARTED_AT_CHARS_MAX]:
        return True
    if not isinstance(found, ReferencedView) or found.restarted_at is None:
        return False
    if found.kind != ROLLOUT:
        return found.restarted_at == asked
    at = restart_time(asked)
    return at is not None and restart_time(found.restarted_at) == at


def restart_told(world: GroupWorld) -> dict[str, str]:
    """`restartedAt`: the last restart that has reached the workload."""
    asked, before = world.owner.restarted_at, world.owner.status.get("restartedAt")
    told = asked if asked is not None and is_told(world) else before
    return {} if told is None else {"restartedAt": str(told)[:RESTARTED_AT_CHARS_MAX]}


def refusal(world: GroupWorld) -> str | None:
    """Why the requested restart cannot be carried out; None: it can, or none is requested."""
    found, asked = world.referenced, world.owner.restarted_at
    if not isinstance(found, ReferencedView) or asked is None or is_told(world) or _asked(world, found) is not None:
        return None
    shown = repr(asked[:RESTARTED_AT_CHARS_MAX])
    return f"{found.title} restarts at a time such as 2026-01-31T12:00:00Z, and {shown} is none"


def restart_time(text: str) -> str | None:
    """The time in whole seconds and UTC, as in `metav1.Time`; None: not a time, or one without a time zone."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _asked(world: GroupWorld, found: ReferencedView) -> str | None:
    """The requested restart in the workload's format; None: none is requested, or the format does not fit."""
    asked = world.owner.restarted_at
    return restart_time(asked) if asked is not None and found.kind == ROLLOUT else asked
