"""Event series, health, logs, settings, resync: the small parts."""

import io
import json
import logging
from typing import Any

import pytest
from muster_operator.limits import BACKOFF_MAX_MS, EVENTS_BURST, FORBIDDEN_QUIET_MS, NAME_TAKEN_RETRY_MS
from muster_operator.runtime.event_series import EventSeries, Repeat, SeriesKey, Start
from muster_operator.runtime.health import Pulse, not_live, not_ready
from muster_operator.runtime.logs import JsonFormatter
from muster_operator.settings import Settings, SettingsError, split_labels, split_list

from tests.operator.fakes.bench import World, cluster, group, run
from tests.operator.fakes.clocks import FakeRand
from tests.operator.runtime.test_crashes import restarted, settled, stable

KEY = SeriesKey(uid="u", reason="Blocked", warning=True)


def test_an_event_repeats_as_a_series_at_most_once_a_minute() -> None:
    series = EventSeries()
    first, _ = series.occurred(KEY, "c", "budget", 0)
    assert isinstance(first, Start)
    assert [series.occurred(KEY, "c", "budget", at)[0] for at in (1_000, 30_000)] == [None, None]
    assert series.occurred(KEY, "c", "budget", 61_000)[0] == Repeat(name=first.name, count=4)
    assert isinstance(series.occurred(KEY, "c", "budget", 61_000 + 360_000)[0], Start), "six minutes of silence end it"


def test_another_message_is_another_series() -> None:
    series = EventSeries()
    series.occurred(KEY, "c", "budget of a", 0)
    assert isinstance(series.occurred(KEY, "c", "budget of b", 1)[0], Start)


def test_one_object_cannot_flood_the_api_server() -> None:
    series = EventSeries()
    steps = [series.occurred(SeriesKey("u", f"R{n}", False), "c", "m", 0)[0] for n in range(100)]
    assert sum(step is not None for step in steps) == EVENTS_BURST
    assert series.occurred(SeriesKey("u", "later", False), "c", "m", 12_000)[0] is not None
    assert series.occurred(SeriesKey("other", "R", False), "c", "m", 0)[0] is not None


GOOD = Pulse(uptime_ms=10**6, leading=True, oldest_ms=0, longest_pass_ms=0, list_age_ms=1_000, unready=())


@pytest.mark.parametrize(
    ("change", "live", "ready"),
    [
        ({}, True, True),
        ({"oldest_ms": 120_001}, False, True),
        ({"oldest_ms": 120_001, "leading": False}, True, True),
        ({"longest_pass_ms": 600_001}, False, True),
        ({"list_age_ms": 900_001}, False, True),
        ({"list_age_ms": None}, False, True),
        ({"list_age_ms": None, "uptime_ms": 1_000}, True, True),
        ({"unready": ("no watch of ConsumerGroup in namespace shop",)}, True, False),
    ],
)
def test_probes(change: dict[str, object], live: bool, ready: bool) -> None:
    import dataclasses

    pulse = dataclasses.replace(GOOD, **change)  # type: ignore[arg-type]
    assert (not not_live(pulse), not not_ready(pulse)) == (live, ready)


def test_no_secret_reaches_logs_events_conditions_or_metrics() -> None:
    """A whole restart, with everything that was said searched for the token."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("muster")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.DEBUG)

    async def scene() -> World:
        world = await restarted()
        world.start()
        return await settled(world)

    try:
        world = run(scene())
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    said = stream.getvalue()
    assert all(json.loads(line)["msg"] for line in said.splitlines())
    assert "EvictPod" in said
    everything = (
        said
        + world.metrics.exposition().decode()
        + json.dumps([live for (kind, _, _), live in world.fake.objects.items() if kind != "Secret"])
    )
    assert FakeRand.TOKEN not in everything
    assert any(kind == "Secret" for kind, _, _ in world.fake.objects)


def test_fields_that_sound_secret_are_blanked() -> None:
    record = logging.makeLogRecord({"name": "muster", "msg": "m", "admin_token": "abc", "object": "o"})
    assert json.loads(JsonFormatter().format(record)) | {"ts": ""} == {
        "ts": "", "level": "info" if False else record.levelname.lower(), "logger": "muster", "msg": "m",
        "admin_token": "***", "object": "o",
    }  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"image": ""},
        {"workers": 0},
        {"workers": 257},
        {"probe_port": 65_536},
        {"log_level": "loud"},
        {"namespaces": ("team-*",)},
        {"image_pull_policy": "Sometimes"},
    ],
)
def test_settings_that_cannot_be_used_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        Settings(**{"image": "muster:1", **wrong})  # type: ignore[arg-type]


def test_lists_and_labels() -> None:
    assert split_list(" a, b,,a ") == ("a", "b")
    assert split_labels("a=b,c=") == {"a": "b", "c": ""}
    with pytest.raises(SettingsError):
        split_labels("nonsense")


def test_a_list_finds_what_a_broken_watch_missed() -> None:
    """The object is deleted while no watch tells: after the next list nobody looks at it any more."""

    async def scene() -> tuple[int, int]:
        world = World()
        world.fake.put(cluster())
        world.fake.put(group(template=False))
        core = world.start()
        await settled(world)
        world.fake.watchers.clear()
        world.fake.remove("ConsumerGroup", "ns", "g")
        before = len(core.cache.owners())
        await core.resync.list_all()
        await world.run(1_000)
        return before, len(core.cache.owners())

    assert run(scene()) == (2, 1)


def test_a_child_of_the_name_that_belongs_to_others_is_left_alone_and_said() -> None:
    async def scene() -> World:
        world = World()
        world.fake.put(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "c-peers", "namespace": "ns"},
             "spec": {"theirs": True}}
        )  # fmt: skip
        world.fake.put(cluster())
        world.start()
        return await settled(world)

    world = run(scene())
    assert world.fake.objects["Service", "ns", "c-peers"]["spec"] == {"theirs": True}
    conditions = {
        one["type"]: (one["status"], one["reason"])
        for one in world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["conditions"]
    }
    assert conditions["Degraded"] == ("True", "NameTaken")


def test_a_name_is_taken_over_half_a_minute_after_it_is_free() -> None:
    """Nobody tells: the other's object is none that is watched."""

    async def scene() -> World:
        world = World()
        world.fake.put({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "g-members", "namespace": "ns"}})
        world.fake.put(group())
        world.start()
        await settled(world)
        del world.fake.objects["Service", "ns", "g-members"]
        await world.run(NAME_TAKEN_RETRY_MS * 6 // 5 + 1_000)
        return world

    world = run(scene())
    assert "ownerReferences" in world.fake.objects["Service", "ns", "g-members"]["metadata"]


def test_a_node_port_is_taken_over_half_a_minute_after_it_is_free() -> None:
    """As a name: the other's Service is none that is watched, of another namespace as well as of ours."""

    async def scene() -> World:
        world = World()
        ports = {"ports": [{"port": 80, "nodePort": 31_290}]}
        theirs = {"metadata": {"name": "theirs", "namespace": "elsewhere"}, "spec": ports}
        world.fake.put({"apiVersion": "v1", "kind": "Service", **theirs})
        outside = {"name": "external", "type": "nodePort", "port": 9094, "nodePortBase": 31_290}
        world.fake.put(cluster(listeners=[{"name": "internal", "port": 9092}, outside]))
        world.start()
        await settled(world)
        said = {one["type"]: one for one in world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["conditions"]}
        assert "31290: provided port is already allocated" in said["Degraded"]["message"]
        del world.fake.objects["Service", "elsewhere", "theirs"]
        await world.run(NAME_TAKEN_RETRY_MS * 6 // 5 + 1_000)
        return world

    assert ("StatefulSet", "ns", "c") in run(scene()).fake.objects


def grown(refusal: str | None = None, *, broken: bool = False, rolled: bool = False) -> World:
    """A converged cluster whose spec has grown since; `refusal` is what the API server says to larger claims.

    `broken`: no pod has been Ready since, as with full disks. `rolled`: the spec asks for a restart as well.
    """

    async def scene() -> World:
        world = World()
        world.fake.put(cluster(storage={"size": "10Gi"}))
        world.start()
        await settled(world)
        for number in range(3):
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
            metadata = {"name": f"data-c-{number}", "namespace": "ns"}
            world.fake.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
        if refusal is not None:
            world.fake.refuse["patch", "PersistentVolumeClaim"] = refusal
        if broken:
            for number in range(3):
                world.fake.edit("Pod", "ns", f"c-{number}", unready)
            await world.run(5_000, controllers=False)
        world.fake.calls.clear()
        world.fake.edit("CoordinatorCluster", "ns", "c", lambda one: one["spec"]["storage"].update(size="20Gi"))
        if rolled:
            world.fake.edit("CoordinatorCluster", "ns", "c", restart)
        await (world.run(30_000, controllers=False) if broken else settled(world))
        return world

    world: World = run(scene())
    return world


def unready(pod: dict[str, Any]) -> None:
    for one in pod["status"]["conditions"]:
        if one["type"] == "Ready":
            one["status"] = "False"


def restart(owner: dict[str, Any]) -> None:
    owner["metadata"].setdefault("annotations", {})["muster.dev/restarted-at"] = "2026-11-23T00:00:00Z"


def test_a_right_that_comes_a_moment_late_costs_a_moment() -> None:
    """`helm install` makes role and operator at once: the first pass may be earlier than the authorizer's news."""

    async def scene() -> World:
        world = World()
        world.fake.put(cluster())
        world.fake.refuse["create", "Secret"] = "secrets is forbidden"
        world.start()
        await world.begin()
        await world.run(2_000)
        assert ("StatefulSet", "ns", "c") not in world.fake.objects
        world.fake.refuse.clear()
        await world.run(10_000)
        return world

    world = run(scene())
    assert ("StatefulSet", "ns", "c") in world.fake.objects
    refused = [call for call in world.fake.calls if call[:2] == ("create", "Secret")]
    assert 2 <= len(refused) <= 5, "with back-off"


@pytest.mark.parametrize(("refused_ms", "warned"), [(200, False), (FORBIDDEN_QUIET_MS - 2_000, False), (60_000, True)])
def test_a_refusal_is_a_warning_when_it_lasts(refused_ms: int, warned: bool) -> None:
    """A 403 of the first moment is the API server's that does not know the role or the kind yet."""

    async def scene() -> World:
        world = World()
        world.fake.put(cluster())
        world.fake.refuse["create", "Secret"] = "secrets is forbidden"
        world.start()
        await world.begin()
        await world.run(refused_ms)
        world.fake.refuse.clear()
        await world.run(30_000)
        return world

    world = run(scene())
    told = [live for (kind, _, _), live in world.fake.objects.items() if kind == "Event"]
    about = {(live["reason"], live["type"]) for live in told if live["reason"] == "Forbidden"}
    assert ("Forbidden", "Normal") in about, "it is told at once"
    assert (("Forbidden", "Warning") in about) == warned


def claims(world: World) -> list[str]:
    return [
        live["spec"]["resources"]["requests"]["storage"]
        for (kind, _, _), live in world.fake.objects.items()
        if kind == "PersistentVolumeClaim"
    ]


def test_volumes_grow_with_the_spec_and_nothing_restarts() -> None:
    world = grown()
    assert claims(world) == ["20Gi"] * 3
    assert world.admin.journal == []
    assert len([call for call in world.fake.writes() if "PersistentVolumeClaim" in call]) == 3


def test_volumes_that_may_not_grow_are_named_and_the_cluster_stays_ready() -> None:
    world = grown("forbidden: the storageclass does not support resize")
    assert claims(world) == ["10Gi"] * 3
    said = {one["type"]: one for one in world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["conditions"]}
    assert (said["Degraded"]["status"], said["Degraded"]["reason"]) == ("True", "StorageRefused")
    assert "data-c-0 cannot be made 20Gi" in said["Degraded"]["message"]
    assert "does not support resize" in said["Degraded"]["message"]
    assert said["Ready"]["status"] == "True"


def test_volumes_grow_while_no_pod_is_ready() -> None:
    """A full disk is a reason to grow, and a cluster that has one never converges."""
    world = grown(broken=True)
    assert claims(world) == ["20Gi"] * 3
    said = {one["type"]: one for one in world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["conditions"]}
    assert said["Ready"]["status"] == "False", "nothing else has healed it here"


@pytest.mark.parametrize("refusal", [None, "forbidden: the storageclass does not support resize"])
def test_volumes_grow_before_a_restart_and_a_refusal_holds_nothing_up(refusal: str | None) -> None:
    world = grown(refusal, rolled=True)
    calls = world.fake.writes()
    patched = [at for at, call in enumerate(calls) if "PersistentVolumeClaim" in call]
    others = [at for at, call in enumerate(calls) if "PersistentVolumeClaim" not in call]
    assert len(patched) == 3, "each once, also when it was refused"
    assert patched[-1] < min(at for at in others if "evict" in calls[at])
    assert len([at for at in others if "evict" in calls[at]]) == 3
    said = {one["type"]: one for one in world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["conditions"]}
    assert said["Ready"]["status"] == "True"
    assert said["Degraded"]["reason"] == ("AsExpected" if refusal is None else "StorageRefused")


def test_a_refused_growth_is_asked_for_again_after_a_while() -> None:
    async def scene() -> tuple[int, list[str]]:
        world = World()
        world.fake.put(cluster(storage={"size": "10Gi"}))
        world.start()
        await settled(world)
        world.fake.refuse["patch", "PersistentVolumeClaim"] = "forbidden: no resize"
        world.fake.calls.clear()
        world.fake.edit("CoordinatorCluster", "ns", "c", lambda one: one["spec"]["storage"].update(size="20Gi"))
        await world.run(BACKOFF_MAX_MS)
        asked = len([call for call in world.fake.writes() if "PersistentVolumeClaim" in call])
        world.fake.refuse.clear()
        await world.run(BACKOFF_MAX_MS * 2)
        return asked, claims(world)

    asked, sizes = run(scene())
    assert asked in (3, 6), "each claim once, or twice"
    assert sizes == ["20Gi"] * 3


def test_two_objects_with_one_group_id_the_younger_is_told() -> None:
    async def scene() -> World:
        world = World()
        old, new = group("old", groupId="orders"), group("new", groupId="orders")
        for at, one in ((1, old), (2, new)):
            one["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{at}Z"
            world.fake.put(one)
        world.kafka.groups["orders"] = stable(3)
        world.start()
        return await settled(world)

    world = run(scene())
    said = {
        name: {
            one["type"]: one["reason"]
            for one in world.fake.objects["ConsumerGroup", "ns", name]["status"]["conditions"]
        }
        for name in ("old", "new")
    }
    assert said["new"]["Degraded"] == said["new"]["StaticMembership"] == "GroupIdShared"
    assert "GroupIdShared" not in said["old"].values()


def test_an_invalid_spec_is_said_and_not_acted_upon() -> None:
    async def scene() -> World:
        world = World()
        world.fake.put(cluster(replicas=51))
        world.start()
        return await settled(world)

    world = run(scene())
    conditions = {
        one["type"]: (one["status"], one["reason"])
        for one in world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["conditions"]
    }
    assert conditions["Degraded"] == ("True", "InvalidSpec")
    assert {kind for kind, _, _ in world.fake.objects} <= {"CoordinatorCluster", "Event", "Lease"}


def test_a_deleted_owner_is_not_brought_back_by_a_stale_cache() -> None:
    """The cache still has the object, the API server does not: nothing may be created."""

    async def scene() -> World:
        world = World()
        world.fake.put(cluster())
        core = world.start()
        await core.resync.list_all()
        world.fake.watchers.clear()
        world.fake.remove("CoordinatorCluster", "ns", "c")
        core.resync.wake_all()
        await world.run(5_000)
        return world

    world = run(scene())
    assert {kind for kind, _, _ in world.fake.objects} == {"Lease"}, "the claim on the namespace, which runs out"


def test_a_pass_that_meets_a_bug_does_not_stop_the_others() -> None:
    async def scene() -> World:
        world = World()
        world.fake.put(group("bad", template=False))
        world.fake.put(group("good", template=False))
        plain = world.kafka.group

        async def buggy(*, bootstrap: str, group_id: str, topics: object) -> object:
            if group_id == "bad":
                raise ZeroDivisionError
            return await plain(bootstrap=bootstrap, group_id=group_id, topics=topics)  # type: ignore[arg-type]

        world.kafka.group = buggy  # type: ignore[method-assign,assignment]
        world.start()
        return await settled(world)

    world = run(scene())
    assert "status" in world.fake.objects["ConsumerGroup", "ns", "good"]
    assert b'result="bug"' in world.metrics.exposition()
