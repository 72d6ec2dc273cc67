"""Which coordinator pod is restarted next, and why: a pure function of what one pass observed.

The StatefulSet is `OnDelete`: no pod restarts unless this function says so, and none while the operator is down. There
is no memory: `status.rollout` is for people, and an operator that crashed after any step observes again and continues.
The first rule that applies decides:

 1. The StatefulSet's controller has not observed its spec yet, or a pod has no revision yet -> wait
 2. Some pod is outdated, and one of the wanted revision is stuck                          -> halt: NewRevisionUnhealthy
    Drains in progress are undone. A revert makes the stuck pod the outdated one, and rule 3 or 7 replaces it.
    The time in which there was no majority for it to join does not count against it, nor does that its volume is lost.
 3. A pod is outdated and broken (no image, crash loop, no node): it serves nothing, so deleting it costs no quorum, and
    it is the only way out of a bad revision                                               -> DeletePod
    One at a time: the replacement of the last one must run first.
 4. No pod is Ready, and the cluster never formed, or no outdated pod has been Ready for `unready_patience_ms`: no
    client is served, so there is no majority to keep, and a new revision may be the cure  -> EvictPod
    Again one at a time, each once the last one's container runs.
 5. A drain is left over, on a pod of the wanted revision (its restart was cancelled) or on a second pod  -> Undrain
 6. No pod is outdated                                     -> converged, or wait; VolumeLost if for lost volumes only
    Before rule 7, if nothing has begun: it is not this cluster's turn (`plan.pacing`)     -> wait
 7. A pod is outdated, and its volume is lost: it has no vote, serves nothing and leads nothing        -> EvictPod
    Not while another one has to show first that the wanted revision works.
    Then choose X among the other outdated ones: the one that drains already, else one that is not Ready, the leader of
    the controller group last, then the highest ordinal.
 8. Any *other* pod is missing, terminating, not Ready, Ready for too short, or its replica does not answer  -> wait
    One whose volume is lost does not come back by waiting: it is passed over once it answers, or if it cannot start,
    and never counts in rule 10.
 9. One replica: the outage is expected and announced                                      -> EvictPod
10. Some Raft group has no leader beyond doubt, or one with a voter on X keeps no caught-up majority without X, or
    another replica has not caught up everywhere                                           -> wait
    A replica that was replaced has caught up when every group has its new data folder as its voter.
    A group whose only voter is on X holds nothing up, here or in rule 11: nobody could ever take it over.
11. X does not drain -> Drain; it still leads a group -> wait; it leads none               -> EvictPod, with its uid
    A replica that is not Ready and does not answer leads nothing if every group's leader was seen elsewhere; one that
    is Ready and does not answer is waited for.

Invariants while any client is served, each held by a property test: beside those with lost volumes, at most one pod is
away or being drained by the operator at any time; at each disruptive step every Raft group has a caught-up majority
without the pod; with more than one replica a pod leads nothing when it is evicted; without faults the leader of the
controller group comes last; a bad revision takes one pod and no more; a revert heals; a crash of the operator after any
action changes none of this.

Deliberately not here: a time-out after which rules 7 to 11 are waived. A roll-out that cannot continue waits, and says
for what. Drains belong to the operator: a user who drains by hand pauses the object first, or rule 5 undoes it.
"""

from dataclasses import dataclass, replace

from muster_operator.api.conditions import Reason
from muster_operator.naming import pod_name
from muster_operator.plan import quorum
from muster_operator.plan.actions import DeletePod, Drain, Event, EvictPod, Undrain
from muster_operator.plan.lost_volumes import judge
from muster_operator.plan.pods import CANNOT_START, broken, missing, observed, outdated, stuck, unsettled
from muster_operator.plan.settings import PlanSettings
from muster_operator.world.cluster import ClusterWorld, ReplicaView
from muster_operator.world.views import PodView, StatefulSetView, Unknown

IDLE = "idle"
DRAINED = "drained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    decision: Reason
    reason: str
    pod: str | None = None
    """The pod that is being restarted or waited for."""
    action: Drain | Undrain | EvictPod | DeletePod | None = None
    events: tuple[Event, ...] = ()
    rolling: bool = False
    """Some pod has not the wanted revision."""
    halted: bool = False
    again_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """One pass, sorted into the terms of the rules."""

    statefulset: StatefulSetView
    replicas: dict[str, ReplicaView]
    survey: quorum.Survey
    outdated: tuple[PodView, ...]
    now_ms: int
    settings: PlanSettings
    lost: frozenset[str] = frozenset()
    """Pods whose volumes are lost, or whose places wait for a new data folder."""
    may_run: frozenset[str] = frozenset()
    """Of these, pods that start all the same, and so show whether their revision does."""

    def draining(self, pod: PodView) -> bool:
        replica = self.replicas.get(pod.name)
        return replica is not None and replica.drain_phase != IDLE and not pod.terminating

    def serving(self) -> frozenset[int]:
        """Brokers that count towards a majority: the pod is Ready and not terminating, and the replica answered in this
        pass."""
        return frozenset(
            self.replicas[pod.name].broker_id
            for pod in self.statefulset.pods
            if pod.ready and not pod.terminating and pod.name in self.replicas and pod.name not in self.lost
        )

    def lost_words(self) -> str:
        names = ", ".join(sorted(self.lost))
        return f"the volume of {names} is lost" if len(self.lost) == 1 else f"the volumes of {names} are lost"

    def wait(self, decision: Reason, reason: str, pod: str | None = None) -> Step:
        return Step(
            decision=decision, reason=reason, pod=pod, rolling=bool(self.outdated), again_ms=self.settings.step_ms
        )


def next_step(world: ClusterWorld, settings: PlanSettings) -> Step:
    """See the module: rules 1 to 6 here, 7 to 11 in `_roll`."""
    statefulset = world.statefulset
    if statefulset is None or isinstance(statefulset, Unknown):
        reason = statefulset.message if statefulset is not None else "the StatefulSet does not exist yet"
        return Step(decision=Reason.STATEFULSET_NOT_OBSERVED, reason=reason, again_ms=settings.wait_ms)
    replicas = {name: view for name, view in world.replicas.items() if isinstance(view, ReplicaView)}
    judged = judge(world)
    scene = _Scene(
        statefulset=statefulset,
        replicas=replicas,
        survey=quorum.survey(replicas.values()),
        outdated=tuple(pod for pod in statefulset.pods if outdated(statefulset, pod)),
        now_ms=world.now_ms,
        settings=settings,
        lost=judged.out(),
        may_run=judged.may_run(),
    )
    if not observed(statefulset):
        return scene.wait(
            Reason.STATEFULSET_NOT_OBSERVED, "the StatefulSet's controller has not seen its last change yet"
        )
    for pod in statefulset.pods:
        if pod.revision == "":
            return scene.wait(Reason.WAITING_FOR_POD, f"{pod.name} has no revision yet", pod.name)
    return (
        _halt(scene)
        or _repair(scene)
        or _undrain_leftover(scene)
        or _settle(scene)
        or _turn(scene, world)
        or _roll(scene)
    )


def _turn(scene: _Scene, world: ClusterWorld) -> Step | None:
    """Wait while other clusters roll to the operator's image. `rolling` means that this roll-out has begun, so it is
    not set here (`plan.pacing` reads it from the status)."""
    if world.must_wait is None:
        return None
    later = _roll(scene)
    if later.action is None:
        return replace(later, rolling=False)
    reason = f"the pods keep revision {scene.outdated[0].revision} until it is their turn: {world.must_wait}"
    return Step(decision=Reason.WAITING_FOR_TURN, reason=reason, again_ms=scene.settings.wait_ms)


def _halt(scene: _Scene) -> Step | None:
    """Rule 2."""
    if not scene.outdated:
        return None
    bad = [
        (pod, reason)
        for pod in scene.statefulset.pods
        if not outdated(scene.statefulset, pod) and (reason := _against_its_revision(scene, pod)) is not None
    ]
    if not bad:
        return None
    pod, why = bad[0]
    revision = scene.statefulset.update_revision
    reason = f"{pod.name} of the new revision {revision} does not become Ready ({why}); no further pod is restarted"
    drained = next((p for p in scene.statefulset.pods if scene.draining(p) and p.ready), None)
    return Step(
        decision=Reason.NEW_REVISION_UNHEALTHY,
        reason=reason,
        pod=pod.name,
        action=Undrain(pod=drained.name) if drained is not None else None,
        rolling=True,
        halted=True,
        again_ms=scene.settings.wait_ms,
    )


def _against_its_revision(scene: _Scene, pod: PodView) -> str | None:
    """Why the pod is stuck, if its revision may be the cause: without its volume no revision would become Ready."""
    if pod.name in scene.lost and (pod.name not in scene.may_run or pod.name in scene.replicas):
        return broken(pod) if pod.waiting_reason in CANNOT_START else None
    return stuck(pod, until_ms=_had_others_until(scene), settings=scene.settings)


def _had_others_until(scene: _Scene) -> int:
    """Until when enough other pods were Ready for this one to complete a majority: now, if any pod is Ready.

    The first pod of a good revision cannot become Ready among others that never serve. That is no evidence against it,
    and a halt would block the cure of the others (rules 3 and 4) for ever. Only the outdated pods are considered: a
    younger pod has not been Ready since it was created, which does not show that it ever was.
    """
    needed = scene.statefulset.replicas // 2
    if needed == 0 or any(one.ready for one in scene.statefulset.pods):
        return scene.now_ms
    ended = sorted((_unready_since_ms(one) or 0 for one in scene.outdated), reverse=True)
    return ended[needed - 1] if len(ended) >= needed else 0


def _unready_since_ms(pod: PodView) -> int | None:
    return pod.unready_since_ms if pod.unready_since_ms is not None else pod.created_ms


def _repair(scene: _Scene) -> Step | None:
    """Rules 3 and 4: outdated pods whose restart loses nothing."""
    statefulset = scene.statefulset
    doomed = [(pod, reason) for pod in scene.outdated if (reason := broken(pod)) is not None]
    dead = bool(scene.outdated) and _nobody_serves(scene)
    if not doomed and not dead:
        return None
    gone = [one for one in missing(statefulset) if pod_name(statefulset.name, one) not in scene.lost]
    if gone:
        return scene.wait(Reason.WAITING_FOR_POD, f"the pod of ordinal {gone[0]} is being created")
    for pod in statefulset.pods:
        if pod.name in scene.lost - scene.may_run:
            continue
        fresh = not outdated(statefulset, pod)
        if pod.terminating and (broken(pod) or dead):
            return scene.wait(Reason.WAITING_FOR_POD, f"{pod.name} is terminating", pod.name)
        if fresh and not pod.ready and pod.phase != "Running":
            return scene.wait(Reason.WAITING_FOR_POD, f"{pod.name} of the new revision is starting", pod.name)
    if doomed:
        pod, why = doomed[-1]
        reason = f"{pod.name} of the old revision {pod.revision} does no work ({why}): it is replaced first"
        action: DeletePod | EvictPod = DeletePod(name=pod.name, uid=pod.uid)
        event = Event(reason=Reason.REPLACING_BROKEN_POD, message=reason)
        decision = Reason.REPLACING_BROKEN_POD
    else:
        pod = scene.outdated[-1]
        reason = f"{pod.name} has the old revision {pod.revision}, and no coordinator serves: nothing can be lost by it"
        action = EvictPod(name=pod.name, uid=pod.uid)
        event = Event(reason=Reason.EVICTING_POD, message=reason)
        decision = Reason.EVICTING_POD
    return Step(
        decision=decision,
        reason=reason,
        pod=pod.name,
        action=action,
        events=(event,),
        rolling=True,
        again_ms=scene.settings.step_ms,
    )


def _nobody_serves(scene: _Scene) -> bool:
    """Rule 4. A formed cluster gets some time: it may be recovering from a power failure."""
    pods = scene.statefulset.pods
    if any(pod.ready for pod in pods):
        return False
    if len(scene.replicas) == len(pods) and all(view.cluster_id is None for view in scene.replicas.values()):
        return True
    since = [_unready_since_ms(pod) for pod in scene.outdated]
    return all(one is not None and scene.now_ms - one > scene.settings.unready_patience_ms for one in since)


def _undrain_leftover(scene: _Scene) -> Step | None:
    """Rule 5. Only a Ready pod: a terminating one drains by itself."""
    draining = [pod for pod in scene.statefulset.pods if scene.draining(pod)]
    kept = _first(scene) if any(pod.name not in scene.lost for pod in scene.outdated) else None
    for pod in draining:
        if pod.ready and (not outdated(scene.statefulset, pod) or (kept is not None and pod.name != kept.name)):
            reason = f"{pod.name} was drained and is not to be restarted now"
            return Step(
                decision=Reason.UNDRAINING_POD,
                reason=reason,
                pod=pod.name,
                action=Undrain(pod=pod.name),
                events=(Event(reason=Reason.UNDRAINING_POD, message=reason),),
                rolling=bool(scene.outdated),
                again_ms=scene.settings.step_ms,
            )
    return None


def _settle(scene: _Scene) -> Step | None:
    """Rule 6."""
    if scene.outdated:
        return None
    waiting = _others_unsettled(scene, None)
    if waiting is not None:
        return waiting
    if scene.lost:
        revision = scene.statefulset.update_revision
        reason = f"every other pod has revision {revision} and is Ready; {scene.lost_words()}"
        return scene.wait(Reason.VOLUME_LOST, reason)
    return Step(
        decision=Reason.CONVERGED,
        reason=f"every pod has revision {scene.statefulset.update_revision} and is Ready",
        again_ms=scene.settings.resync_ms,
    )


def _first(scene: _Scene) -> PodView:
    """Rule 7. Precondition: there is an outdated pod whose volume is not lost."""
    leader = scene.survey.controller_leader

    def order(pod: PodView) -> tuple[bool, bool, bool, int]:
        replica = scene.replicas.get(pod.name)
        leads = replica is not None and replica.broker_id == leader
        return (not scene.draining(pod), pod.ready, leads, -pod.ordinal)

    return min((pod for pod in scene.outdated if pod.name not in scene.lost), key=order)


def _others_unsettled(scene: _Scene, chosen: PodView | None) -> Step | None:
    """Rule 8."""
    statefulset = scene.statefulset
    gone = [one for one in missing(statefulset) if pod_name(statefulset.name, one) not in scene.lost]
    if gone:
        return scene.wait(Reason.WAITING_FOR_POD, f"the pod of ordinal {gone[0]} does not exist")
    for pod in statefulset.pods:
        if pod.name in scene.may_run and _starts(scene, pod):
            return scene.wait(
                Reason.WAITING_FOR_POD, f"{pod.name} of the wanted revision does not answer yet", pod.name
            )
        if pod.name in scene.lost:
            continue
        if chosen is not None and pod.name == chosen.name:
            if pod.terminating:
                return scene.wait(Reason.WAITING_FOR_POD, f"{pod.name} is terminating", pod.name)
            continue
        why = unsettled(pod, now_ms=scene.now_ms, settings=scene.settings)
        if why is None and pod.name not in scene.replicas:
            return scene.wait(Reason.REPLICAS_UNREACHABLE, f"{pod.name} does not answer on its admin port", pod.name)
        if why is None and not scene.replicas[pod.name].ready:
            why = "says that it is not ready: " + "; ".join(scene.replicas[pod.name].not_ready)
        if why is not None:
            return scene.wait(Reason.WAITING_FOR_POD, f"{pod.name} {why}", pod.name)
    return None


def _starts(scene: _Scene, pod: PodView) -> bool:
    """It has a node and the wanted revision, and has not shown yet that this works: a bad one takes one pod only."""
    return pod.node is not None and pod.name not in scene.replicas and not outdated(scene.statefulset, pod)


def _roll(scene: _Scene) -> Step:
    """Rules 7 to 11. Precondition: there is an outdated pod, none is broken, and none of the wanted revision is
    stuck."""
    lost = [pod for pod in scene.outdated if pod.name in scene.lost]
    unproven = [
        pod
        for pod in scene.statefulset.pods
        if not outdated(scene.statefulset, pod)
        and (_starts(scene, pod) if pod.name in scene.may_run else not pod.ready and pod.name not in scene.lost)
    ]
    for pod in lost:
        if not pod.terminating and not unproven:
            reason = f"{pod.name} has the old revision {pod.revision}, and its volume is lost: it has no vote"
            return _evict(scene, pod, reason, Event(reason=Reason.EVICTING_POD, message=reason))
    if len(lost) == len(scene.outdated):
        awaited = (unproven or lost)[0]
        return scene.wait(Reason.VOLUME_LOST, f"{awaited.name} is waited for; {scene.lost_words()}", awaited.name)
    pod = _first(scene)
    waiting = _others_unsettled(scene, pod)
    if waiting is not None:
        return waiting
    if scene.statefulset.replicas == 1:
        reason = f"{pod.name} is the only replica: no coordinator serves while it restarts"
        return _evict(scene, pod, reason, Event(reason=Reason.OUTAGE_EXPECTED, message=reason, warning=True))
    replica = scene.replicas.get(pod.name)
    broker = replica.broker_id if replica is not None else pod.ordinal
    entries_max = scene.settings.caught_up_entries_max
    why = quorum.objection(scene.survey, without=broker, serving=scene.serving(), entries_max=entries_max)
    if why is not None and scene.lost:
        reason = f"{pod.name} is not restarted: {why}; {scene.lost_words()}"
        return scene.wait(Reason.VOLUME_LOST, reason, pod.name)
    if why is not None:
        return scene.wait(Reason.WAITING_FOR_QUORUM, f"{pod.name} is not restarted: {why}", pod.name)
    for other in scene.statefulset.pods:
        if other.name in scene.lost:
            continue
        late = quorum.behind(scene.survey, scene.replicas[other.name].broker_id, entries_max) if other != pod else ()
        if late:
            reason = f"{other.name} has not caught up in {scene.survey.naming(late)}"
            return scene.wait(Reason.CATCHING_UP, reason, other.name)
    return _drain_or_evict(scene, pod, replica, broker)


def _drain_or_evict(scene: _Scene, pod: PodView, replica: ReplicaView | None, broker: int) -> Step:
    """Rule 11. Precondition: every group keeps a majority without the pod, but for those that have no other voter."""
    alone = quorum.only_there(scene.survey, broker)
    led = [number for number, led in scene.survey.led.items() if led.leader == broker and number not in alone]
    if replica is None:
        if pod.ready:
            return scene.wait(Reason.REPLICAS_UNREACHABLE, f"{pod.name} does not answer on its admin port", pod.name)
        reason = f"{pod.name} is not Ready, does not answer and leads nothing; it has the old revision {pod.revision}"
        return _evict(scene, pod, reason, Event(reason=Reason.EVICTING_POD, message=reason))
    if replica.drain_phase == IDLE:
        reason = (
            f"{pod.name} has the old revision {pod.revision}: it hands over what it leads ({replica.leaderships}) first"
        )
        return Step(
            decision=Reason.DRAINING_POD,
            reason=reason,
            pod=pod.name,
            action=Drain(pod=pod.name),
            events=(Event(reason=Reason.DRAINING_POD, message=reason),),
            rolling=True,
            again_ms=scene.settings.step_ms,
        )
    leaderships = max(0, replica.leaderships - len(alone))
    if replica.drain_phase != DRAINED or leaderships or led:
        left = max(leaderships, len(led))
        return scene.wait(Reason.DRAINING_POD, f"{pod.name} still leads {left} Raft groups", pod.name)
    reason = f"{pod.name} leads nothing any more and every Raft group keeps a caught-up majority without it"
    if alone:
        away = scene.survey.naming(alone)
        reason = f"{reason}, but for those that have their only replica there and are away with it: {away}"
    return _evict(scene, pod, reason, Event(reason=Reason.EVICTING_POD, message=reason))


def _evict(scene: _Scene, pod: PodView, reason: str, event: Event) -> Step:
    return Step(
        decision=Reason.EVICTING_POD,
        reason=reason,
        pod=pod.name,
        action=EvictPod(name=pod.name, uid=pod.uid),
        events=(event,),
        rolling=True,
        again_ms=scene.settings.step_ms,
    )
