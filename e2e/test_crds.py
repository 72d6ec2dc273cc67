"""The resource definitions on a real API server: what is refused and in which words, what is kept, how it reads.

No controllers run, so this needs neither root nor a node.
"""

import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from muster_operator.api.crd import crd
from muster_operator.api.kinds import CONSUMER_GROUP, KINDS, Kind

from e2e.node.client import Client, Refused
from e2e.operator_process import established, install_crds, wait_for
from tests.operator.api.cel_examples import CEL_EXAMPLES, Example, rules_of
from tests.operator.api.generate import ROOT

SAMPLES = sorted((ROOT / "crds" / "samples").glob("*.yaml"))


@pytest.fixture(scope="module")
def installed(api: Client) -> Client:
    """The checked-in files, as a user applies them."""
    install_crds(api)
    return api


@pytest.fixture(scope="module")
def everywhere(installed: Client) -> Callable[[], Client]:
    def fresh() -> Client:
        name = f"crds-{uuid.uuid4().hex[:8]}"
        installed.kubectl("create", "namespace", name)
        return installed.within(name)

    return fresh


@pytest.fixture
def place(everywhere: Callable[[], Client]) -> Client:
    """A namespace of the test's own; it goes with the API server."""
    return everywhere()


def created(client: Client, manifest: dict[str, Any]) -> dict[str, Any]:
    """As the API server stored it."""
    said = client.kubectl("create", "--filename=-", "--output=json", given=json.dumps(manifest))
    found: dict[str, Any] = json.loads(said)
    return found


def name_of(example: Example) -> str:
    return f"{example.kind.short}-{example.says[:30]}"


def refusals(client: Client, verb: str, manifests: list[dict[str, Any]]) -> dict[str, str]:
    """What the API server says against each manifest, by name, of one kubectl call for all. Names differ."""
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    with pytest.raises(Refused) as caught:
        client.kubectl(verb, "--filename=-", given=given)
    parts = re.split(r'^(?:The|Error).*? "([-a-z0-9.]+)" is invalid:', caught.value.stderr, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def named(number: int) -> str:
    example = CEL_EXAMPLES[number]
    return f"example-{number}" if example.name == "example" else example.name


@pytest.fixture(scope="module")
def answers(everywhere: Callable[[], Client]) -> dict[str, str]:
    """What was said to each example, by its name; an update is tried on an object that was stored before."""
    client = everywhere()
    created_at_once, updates, stored = [], [], []
    for number, example in enumerate(CEL_EXAMPLES):
        wanted = example.manifest(example.spec, name=named(number))
        if example.old is None:
            created_at_once.append(wanted)
        else:
            stored.append(example.manifest(example.old, name=named(number)))
            updates.append(wanted)
    client.kubectl("create", "--filename=-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": stored}))
    return refusals(client, "create", created_at_once) | refusals(client, "replace", updates)


@pytest.mark.parametrize("number", range(len(CEL_EXAMPLES)), ids=lambda n: name_of(CEL_EXAMPLES[n]))
def test_a_rule_refuses_its_example_with_its_message(answers: dict[str, str], number: int) -> None:
    """The whole message reaches the user. An update is refused only because of what was stored before."""
    example = CEL_EXAMPLES[number]
    message = next(text for _, text in rules_of(example.kind) if text.startswith(example.says))
    assert message in answers[named(number)]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_accepted_as_it_is_written(place: Client, path: Path) -> None:
    """kubectl's strict validation refuses unknown fields, the server the rest."""
    sample = yaml.safe_load(path.read_text())
    stored = created(place, sample)
    assert not {key: value for key, value in sample["spec"].items() if not covers(stored["spec"][key], value)}


def covers(stored: object, written: object) -> bool:
    """Everything written is stored; the server may have added defaults."""
    if isinstance(written, dict) and isinstance(stored, dict):
        return all(key in stored and covers(stored[key], item) for key, item in written.items())
    if isinstance(written, list) and isinstance(stored, list):
        return len(stored) == len(written) and all(map(covers, stored, written))
    return stored == written


def test_a_change_that_is_allowed_is_not_refused(place: Client) -> None:
    """Volumes grow, replicas may be asked for (the operator answers with a condition), listeners come and go."""
    place.apply(cluster(storage={"size": "10Gi", "storageClassName": "fast"}))
    outside = {"name": "outside", "type": "nodePort", "port": 9094, "nodePortBase": 31090}
    inside = {"name": "internal", "type": "internal", "port": 9092}
    changed = cluster(
        storage={"size": "20Gi", "storageClassName": "fast"}, replicas=5, listeners=[inside, outside], config={"a.b": 1}
    )
    place.apply(changed)
    assert place.read("cc", "example")["spec"]["storage"]["size"] == "20Gi"


def test_an_observer_may_look_at_another_cluster(place: Client) -> None:
    """Nobody consumes, so nobody moves without offsets; and the way to move consumers is to stop them first."""
    given: dict[str, object] = {"groupId": "billing", "topics": ["orders"], "clusterRef": {"name": "main"}}
    for spec in (
        given,
        given | {"clusterRef": {"name": "other"}},
        given | {"clusterRef": {"name": "other"}, "template": {"image": "consumer:1"}},
        given | {"clusterRef": {"name": "other"}},
        {"groupId": "billing", "topics": ["orders"], "bootstrapServers": "kafka:9092"},
    ):
        place.apply(
            {"apiVersion": "muster.dev/v1alpha1", "kind": "ConsumerGroup", "metadata": {"name": "mover"}, "spec": spec}
        )
    assert "clusterRef" not in place.read("cg", "mover")["spec"]


def test_addresses_of_the_same_cluster_come_and_go(place: Client) -> None:
    """One that stays proves that it is the same cluster; whoever wants another one stops the consumers first."""
    given: dict[str, object] = {"groupId": "billing", "topics": ["orders"], "template": {"image": "consumer:1"}}
    many = ",".join(f"broker-{number}.example.com:9092" for number in range(16))
    for addresses in ("a:1", "a:1,b:1", "b:1,a:1", "b:1", f"b:1,{many}", many, "broker-0.example.com:9092"):
        place.apply(
            {
                "apiVersion": "muster.dev/v1alpha1",
                "kind": "ConsumerGroup",
                "metadata": {"name": "addresses"},
                "spec": given | {"bootstrapServers": addresses},
            }
        )
        assert place.read("cg", "addresses")["spec"]["bootstrapServers"] == addresses


def takes(client: Client, manifest: dict[str, Any]) -> bool:
    """Whether the API server would take it. A definition that was just changed is served a moment later."""
    try:
        client.kubectl("create", "--dry-run=server", "--filename=-", given=json.dumps(manifest))
    except Refused:
        return False
    return True


def test_a_number_that_was_stored_before_it_was_refused_stays_editable(
    api: Client, installed: Client, place: Client
) -> None:
    """Of an object that only observes: the definition of before let it in, and an operator has looked at it."""
    kind = next(item for item in KINDS if item.short == "cg")
    before = crd(kind)
    root = before["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for node in (root, root["properties"]["spec"]):
        rules = node["x-kubernetes-validations"]
        node["x-kubernetes-validations"] = [one for one in rules if not one["message"].startswith("`replicas`")]
    try:
        api.apply(before)
        wait_for("the definition of before", lambda: takes(place, group(replicas=4)), 30)
        created(place, group(replicas=4))
        place.kubectl(
            "patch",
            "cg/example",
            "--subresource=status",
            "--type=merge",
            '--patch={"status": {"observedGeneration": 1}}',
        )
    finally:
        api.apply(crd(kind))
        other = {**group(replicas=4), "metadata": {"name": "other"}}
        wait_for("the definition of now", lambda: not takes(place, other), 30)
    place.kubectl("patch", "cg/example", "--type=merge", '--patch={"spec": {"paused": true}}')
    place.kubectl(
        "patch", "cg/example", "--subresource=status", "--type=merge", '--patch={"status": {"observedGeneration": 2}}'
    )
    with pytest.raises(Refused, match="may not be set, nor stay"):
        place.kubectl("scale", "cg/example", "--replicas=5")
    place.kubectl("patch", "cg/example", "--type=json", '--patch=[{"op": "remove", "path": "/spec/replicas"}]')
    with pytest.raises(Refused, match="may not be set, nor stay"):
        place.kubectl("scale", "cg/example", "--replicas=5")
    assert place.read("cg", "example")["spec"]["paused"] is True


WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "orders"}


def test_a_workload_is_changed_for_another_or_for_a_template_in_two_steps(place: Client) -> None:
    """Each step alone says what it does; and a number goes with whatever there is to scale."""
    for spec in (
        {"workloadRef": WORKLOAD, "replicas": 4},
        {},
        {"workloadRef": {**WORKLOAD, "kind": "StatefulSet", "name": "other"}},
        {},
        {"template": {"image": "consumer:1"}, "replicas": 2},
        {},
        {"workloadRef": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "orders"}},
    ):
        manifest = group(**spec)
        manifest["metadata"]["name"] = "mover"
        place.apply(manifest)
    stored = place.read("cg", "mover")["spec"]
    assert stored["workloadRef"]["kind"] == "Rollout"
    assert not {"template", "replicas"} & stored.keys()


def test_the_number_that_was_once_the_default_stays_valid_where_there_is_nothing_to_scale(place: Client) -> None:
    """Objects that only observe were stored with it by releases before."""
    created(place, group(replicas=1))
    place.kubectl("patch", "cg/example", "--type=merge", '--patch={"spec": {"paused": true}}')
    assert place.read("cg", "example")["spec"]["replicas"] == 1


@pytest.mark.parametrize(
    "given", [{"template": {"image": "consumer:1"}}, {"workloadRef": WORKLOAD}], ids=["made", "referred"]
)
def test_a_number_that_was_not_given_is_not_made_up_and_may_be_given_by_scale(
    place: Client, given: dict[str, Any]
) -> None:
    """Absent it means the workload's own number, so no default may fill it in."""
    created(place, group(**given))
    assert "replicas" not in place.read("cg", "example")["spec"]
    place.kubectl("scale", "cg/example", "--replicas=3")
    assert place.read("cg", "example")["spec"]["replicas"] == 3


def cluster(**spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "CoordinatorCluster",
        "metadata": {"name": "example"},
        "spec": spec,
    }


def group(**spec: object) -> dict[str, Any]:
    given = {"groupId": "billing", "topics": ["orders"], "clusterRef": {"name": "main"}, **spec}
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "example"},
        "spec": given,
    }


def test_only_the_spec_moves_the_generation(place: Client) -> None:
    created(place, group(template={"image": "consumer:1"}))
    status = {"state": "Stable", "lagText": "Unknown", "readyText": "0/1"}
    place.kubectl(
        "patch", "cg/example", "--subresource=status", "--type=merge", f"--patch={json.dumps({'status': status})}"
    )
    after = place.read("cg", "example")
    assert (after["metadata"]["generation"], after["status"]) == (1, {**CONSUMER_GROUP.unseen, **status})
    place.kubectl(
        "patch", "cg/example", "--type=merge", '--patch={"spec": {"replicas": 2}, "status": {"state": "Empty"}}'
    )
    after = place.read("cg", "example")
    assert (after["metadata"]["generation"], after["status"]["state"]) == (2, "Stable")


def test_a_status_without_the_unknown_stays_without_it(place: Client) -> None:
    """What could not be seen is absent or Unknown: no default turns it into 0 or an empty list."""
    created(place, group())
    place.kubectl(
        "patch", "cg/example", "--subresource=status", "--type=merge", '--patch={"status": {"state": "Unknown"}}'
    )
    stored = place.read("cg", "example")["status"]
    assert stored == {**CONSUMER_GROUP.unseen, "state": "Unknown"}
    assert not [key for key, value in stored.items() if value in (0, "", [], {}, "Empty")]


def test_kubectl_scale_goes_through_the_same_bounds(place: Client) -> None:
    created(place, group(template={"image": "consumer:1"}))
    place.kubectl("scale", "cg/example", "--replicas=7")
    assert place.read("cg", "example")["spec"]["replicas"] == 7
    with pytest.raises(Refused, match="1000"):
        place.kubectl("scale", "cg/example", "--replicas=1001")
    with pytest.raises(Refused):
        place.kubectl("scale", "cc/example", "--replicas=1")


def test_two_managers_may_own_conditions_of_different_types(place: Client) -> None:
    """The list is a map by type, so nobody's apply takes another's condition away."""
    created(place, group())

    def condition(type_: str) -> dict[str, Any]:
        times = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
        return {"type": type_, "status": "True", "reason": "AsExpected", "message": "m", **times}

    for manager, type_ in (("one", "Ready"), ("other", "Foreign"), ("one", "Ready")):
        manifest = {**group(), "status": {"conditions": [condition(type_)]}}
        manifest.pop("spec")
        words = ("apply", "--server-side", "--subresource=status", f"--field-manager={manager}", "--filename=-")
        place.kubectl(*words, given=json.dumps(manifest))
    stored = {item["type"]: item["status"] for item in place.read("cg", "example")["status"]["conditions"]}
    assert stored == {"Ready": "True", "Foreign": "True", "StaticMembership": "Unknown"}, "the last was never judged"


def test_a_later_definition_keeps_the_stored_objects(api: Client, installed: Client, place: Client) -> None:
    """An upgrade that adds a field and a rule: what is stored stays, reads the same, and may be changed elsewhere."""
    created(place, group(replicas=4, template={"image": "consumer:1"}))
    before = place.read("cg", "example")
    kind = next(item for item in KINDS if item.short == "cg")
    later = crd(kind)
    spec = later["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["colour"] = {"type": "string", "maxLength": 10, "default": "red", "description": "New."}
    tighter = {"rule": "self <= 3", "message": "`replicas` may be at most 3"}
    spec["properties"]["replicas"]["x-kubernetes-validations"] = [tighter]
    try:
        api.apply(later)
        established(api)
        after = place.read("cg", "example")
        assert after["spec"].pop("colour") == "red", "defaults fill old objects in when they are read"
        assert after["spec"] == before["spec"]
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        place.kubectl("patch", "cg/example", "--type=merge", '--patch={"spec": {"paused": true}}')
        with pytest.raises(Refused, match="may be at most 3"):
            place.kubectl("scale", "cg/example", "--replicas=5")
    finally:
        api.apply(crd(kind))
        established(api)
    assert place.read("cg", "example")["spec"] == {**before["spec"], "paused": True}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short)
def test_kubectl_explains_the_fields(installed: Client, kind: Kind) -> None:
    for path in ("", ".spec", ".status"):
        assert "<empty>" not in installed.kubectl("explain", f"{kind.short}{path}")
    said = " ".join(installed.kubectl("explain", f"{kind.short}.spec").split())
    version = crd(kind)["spec"]["versions"][0]
    for item in version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].values():
        assert item["description"] in said


def test_kubectl_get_lists_both_kinds_by_category_and_shows_the_status(place: Client) -> None:
    created(place, group())
    created(place, cluster())
    status = {"state": "Stable", "readyText": "3/3", "memberCount": 3, "lagText": "0"}
    place.kubectl(
        "patch", "cg/example", "--subresource=status", "--type=merge", f"--patch={json.dumps({'status': status})}"
    )
    head, row = place.kubectl("get", "cg").splitlines()
    assert head.split() == ["NAME", "STATE", "READY", "MEMBERS", "LAG", "STATIC", "AGE"]
    assert row.split()[:5] == ["example", "Stable", "3/3", "3", "0"]
    names = place.kubectl("get", "muster", "--output=name").split()
    assert names == ["consumergroup.muster.dev/example", "coordinatorcluster.muster.dev/example"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short)
def test_an_object_that_nobody_has_seen_says_unknown(place: Client, kind: Kind) -> None:
    """No operator runs here: no column with a judgement is empty, and nothing claims to be fine."""
    sample = yaml.safe_load((ROOT / "crds" / "samples" / f"{kind.kind.lower()}-minimal.yaml").read_text())
    place.apply(sample)
    header, row = place.kubectl("get", kind.plural).splitlines()
    shown = {name: row[header.index(name) :].split("  ")[0].strip() for name in header.split()}
    unknown = {
        "cc": ["READY", "QUORUM"], "cg": ["STATE", "READY", "LAG", "STATIC"], "mt": ["APPLIED"], "mu": ["APPLIED"],
    }[kind.short]  # fmt: skip
    assert {name: shown[name] for name in unknown} == dict.fromkeys(unknown, "Unknown")
    assert kind.short == "cg" or shown["REASON"] == "NotObserved"
