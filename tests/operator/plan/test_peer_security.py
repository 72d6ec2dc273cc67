"""Coordinators know each other by a secret, and a cluster gets there and back without a pod that links to nobody."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_operator.naming import PEERS_ANNOTATION
from muster_operator.plan.peer_security import closed_refusal, rotation, rotation_wait_ms, wanted_mode
from muster_operator.plan.settings import PlanSettings
from muster_operator.resources.peer_mode import BY_SECRET, OPEN, PeerMode, mode_of
from muster_operator.world.cluster import ClusterWorld
from muster_operator.world.views import PodView, StatefulSetView

from tests.operator.plan.making import pod
from tests.operator.resources.owners import UID, cluster_spec, owner

PASSING = PeerMode("secret", ("none",))
LEAVING = PeerMode("none", ("secret",))
SETTINGS = PlanSettings(operator_image="muster:0.2.0", operator_namespace="ops", operator_release="0.2.0")
NOW_MS = 1_700_000_000_000


def _annotated(mode: PeerMode) -> dict[str, str]:
    return {} if mode == OPEN else {PEERS_ANNOTATION: mode.text}


def world(
    template: PeerMode | None,
    pods: Mapping[int, PeerMode],
    *,
    level: int | None = 3,
    observed: bool = True,
    replicas: int = 3,
    secret: Mapping[str, Any] | None = None,
    asked: str | None = None,
    **spec: Any,
) -> ClusterWorld:
    """`template` None: there is no StatefulSet."""
    views: tuple[PodView, ...] = tuple(pod(n, annotations=_annotated(mode)) for n, mode in sorted(pods.items()))
    statefulset = StatefulSetView(
        name="main", uid="s", generation=3, observed_generation=3 if observed else 2, replicas=replicas,
        ready_replicas=0, current_revision="r1", update_revision="r1", template_hash="", pods=views,
    )  # fmt: skip
    children: dict[tuple[str, str], Mapping[str, Any]] = {}
    if template is not None:
        metadata = {"annotations": _annotated(template)}
        children["StatefulSet", "main"] = {"spec": {"template": {"metadata": metadata}}}
    if secret is not None:
        reference = [{"uid": UID, "controller": True}]
        children["Secret", "main-peer-secret"] = {
            "metadata": {"name": "main-peer-secret", "uid": "u", "resourceVersion": "7", "ownerReferences": reference,
                         "annotations": dict(secret)}
        }  # fmt: skip
    view = owner()
    object.__setattr__(view, "status", {} if level is None else {"featureLevel": level})
    object.__setattr__(view, "rotate_peers", asked)
    return ClusterWorld(
        owner=view, spec=cluster_spec(**spec), statefulset=statefulset if template is not None else None,
        children=children, replicas={}, node_addresses={}, now_ms=NOW_MS,
    )  # fmt: skip


def wanted(*arguments: Any, pods: int = 3, settings: PlanSettings = SETTINGS, **given: Any) -> PeerMode:
    return wanted_mode(world(*arguments, **given), settings, pods=pods)


def test_a_new_cluster_is_closed_from_its_first_pod_on() -> None:
    assert wanted(None, {}, level=None) == BY_SECRET
    assert wanted(None, {}, level=None, peers={"security": "none"}) == OPEN


def test_an_open_cluster_gets_there_by_two_templates() -> None:
    everybody = dict.fromkeys(range(3), OPEN)
    assert wanted(OPEN, everybody) == PASSING
    assert wanted(PASSING, {**everybody, 2: PASSING}) == PASSING
    assert wanted(PASSING, dict.fromkeys(range(3), PASSING)) == BY_SECRET
    assert wanted(BY_SECRET, dict.fromkeys(range(3), PASSING)) == BY_SECRET
    assert wanted(BY_SECRET, dict.fromkeys(range(3), BY_SECRET)) == BY_SECRET


@pytest.mark.parametrize("level", [None, 1, 2])
def test_what_may_go_back_to_a_release_without_secrets_stays_passable_for_it(level: int | None) -> None:
    assert wanted(PASSING, dict.fromkeys(range(3), PASSING), level=level) == PASSING
    assert wanted(BY_SECRET, dict.fromkeys(range(3), BY_SECRET), level=level) == BY_SECRET, "it never was open"


def test_an_open_cluster_is_told_nothing_that_its_release_does_not_know() -> None:
    pods = dict.fromkeys(range(3), OPEN)
    assert wanted(OPEN, pods, image="r.example.com/muster:0.1.0") == OPEN
    nightly = "r.example.com/muster:nightly"
    assert wanted(OPEN, pods, image=nightly, level=2) == OPEN, "it may be of such a release"
    assert wanted(OPEN, pods, image=nightly, level=3) == PASSING
    assert wanted(None, {}, image=nightly, level=None) == BY_SECRET


def test_and_back_by_two_as_well() -> None:
    closed = dict.fromkeys(range(3), BY_SECRET)
    assert wanted(BY_SECRET, closed, peers={"security": "none"}) == LEAVING
    assert wanted(LEAVING, dict.fromkeys(range(3), LEAVING), peers={"security": "none"}) == OPEN


def test_one_coordinator_has_no_peers_to_be_understood_by() -> None:
    assert wanted(OPEN, {0: OPEN}, replicas=1, pods=1) == BY_SECRET
    assert wanted(OPEN, {0: OPEN}, replicas=1, pods=3) == PASSING, "it is to get some"


def test_what_the_controller_has_not_seen_yet_is_not_changed() -> None:
    assert wanted(OPEN, dict.fromkeys(range(3), OPEN), observed=False) == OPEN
    assert wanted(PASSING, dict.fromkeys(range(3), PASSING), observed=False) == PASSING


@pytest.mark.parametrize("words", ["", "tsl", "secret,", "none;secret", "secret,none,open"])
def test_a_foreign_annotation_is_taken_for_open(words: str) -> None:
    assert mode_of({PEERS_ANNOTATION: words}) == OPEN


def test_a_release_that_could_link_to_nobody_is_refused_in_words() -> None:
    old = {"image": "r.example.com/muster:0.1.0"}
    closed = dict.fromkeys(range(3), BY_SECRET)
    refused = closed_refusal(world(BY_SECRET, closed, level=1, **old), SETTINGS)
    assert refused is not None
    assert "`peers.security` to none first" in refused
    for template, pods in ((PASSING, dict.fromkeys(range(3), PASSING)), (OPEN, dict.fromkeys(range(3), OPEN))):
        assert closed_refusal(world(template, pods, level=1, **old), SETTINGS) is None
    assert closed_refusal(world(BY_SECRET, {0: BY_SECRET}, replicas=1, level=1, **old), SETTINGS) is None
    assert closed_refusal(world(BY_SECRET, closed), SETTINGS) is None


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("restart"), st.integers(0, 4)),
        st.tuples(st.just("lose"), st.integers(0, 4)),
        st.tuples(st.just("spec"), st.sampled_from(["secret", "none"])),
        st.tuples(st.just("level"), st.sampled_from([1, 3])),
        st.tuples(st.just("replicas"), st.sampled_from([1, 3, 5])),
        st.tuples(st.just("late"), st.just(0)),
    ),
    max_size=40,
)


@given(start=st.sampled_from([None, OPEN]), steps=_STEPS)
def test_two_pods_that_are_there_at_the_same_time_always_link(
    start: PeerMode | None, steps: list[tuple[str, Any]]
) -> None:
    """The StatefulSet's controller makes pods of the last template that it has seen; a pass comes between any two
    steps. Nothing is remembered but the pods and the template."""
    target, level, replicas = "secret", 1, 3
    template = start or wanted_mode(world(None, {}, level=None), SETTINGS, pods=3)
    seen = template
    pods = dict.fromkeys(range(3), template)
    for step, value in steps:
        match step:
            case "restart" if value in pods:
                pods[value] = seen
            case "lose" if len(pods) > 1:
                pods.pop(value, None)
            case "spec":
                target = value
            case "level":
                level = max(level, value)
            case "replicas":
                replicas = value
                pods = {n: mode for n, mode in pods.items() if n < replicas}
        template = wanted_mode(
            world(
                template, pods, level=level, observed=template == seen, replicas=replicas, peers={"security": target}
            ),
            SETTINGS,
            pods=replicas,
        )
        if step != "late":
            seen = template
            pods = {n: pods.get(n, seen) for n in range(replicas)}
        for n, one in pods.items():
            for m, other in pods.items():
                assert n == m or one.links_to(other), (step, n, m, one, other)


@given(start=st.sampled_from([OPEN, PASSING, BY_SECRET, LEAVING]), target=st.sampled_from(["secret", "none"]))
def test_every_start_ends_at_what_is_wanted_after_two_roll_outs_at_most(start: PeerMode, target: str) -> None:
    template, rolls = start, 0
    for _ in range(4):
        made = wanted(template, dict.fromkeys(range(3), template), peers={"security": target})
        rolls += made != template
        template = made
    assert template == PeerMode(target)
    assert rolls <= 2


# -- another secret ---------------------------------------------------------------------------

ROTATE, SINCE = "muster.dev/rotate-peer-secret", "muster.dev/rotated-at-ms"


def turned(annotations: Mapping[str, str], asked: str | None) -> Any:
    return rotation(world(BY_SECRET, {}, secret=annotations, asked=asked), SETTINGS)


def test_a_new_text_makes_a_new_secret_beside_the_one_before_once() -> None:
    action = turned({}, "monday")
    assert (action.keep_old, action.version, action.uid) == (True, "7", "u")
    assert action.annotations == {ROTATE: "monday", SINCE: str(NOW_MS)}
    assert turned({}, None) is None
    assert turned({ROTATE: "monday"}, "monday") is None


def test_the_one_before_goes_when_every_kubelet_has_had_its_time() -> None:
    early = {ROTATE: "monday", SINCE: str(NOW_MS - SETTINGS.rotation_ms + 1)}
    assert turned(early, "monday") is None
    assert turned(early, "tuesday") is None, "one after the other: a third one would be known to half of them"
    late = {ROTATE: "monday", SINCE: str(NOW_MS - SETTINGS.rotation_ms)}
    action = turned(late, "monday")
    assert (action.keep_old, action.annotations) == (False, {SINCE: None})


def test_the_pass_comes_back_when_the_one_before_is_to_go() -> None:
    since = {SINCE: str(NOW_MS - 1_000)}
    assert rotation_wait_ms(world(BY_SECRET, {}, secret=since), SETTINGS) == SETTINGS.rotation_ms - 1_000
    assert rotation_wait_ms(world(BY_SECRET, {}, secret={}), SETTINGS) is None
    assert rotation_wait_ms(world(BY_SECRET, {}), SETTINGS) is None


@pytest.mark.parametrize("text", ["", "soon", "-5", "9" * 30, "1e3"])
def test_a_foreign_time_is_long_ago(text: str) -> None:
    assert turned({SINCE: text}, None).keep_old is False
