"""The chart's files without Helm: copies are equal, alerts and dashboard name metrics that exist, runbooks are written.

What Helm makes of the templates is tested where Helm is: `e2e/`.
"""

import json
import re
from pathlib import Path

import pytest
import yaml
from muster_operator.api.conditions import ClusterCondition

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "muster"
METRIC = re.compile(r"\bmuster_[a-z_]+")
SUFFIXES = ("_total", "_bucket", "_sum", "_count")


def metrics_in_code() -> set[str]:
    """Names of metrics as the sources spell them; prometheus-client adds the suffix of a counter."""
    folders = (ROOT / "coordinator" / "muster_coordinator" / "admin", ROOT / "operator" / "muster_operator")
    names: set[str] = set()
    for folder in folders:
        for path in folder.rglob("*.py"):
            names |= set(re.findall(r'"(muster_[a-z_]+)"', path.read_text()))
    return names | {f"{name}{suffix}" for name in names for suffix in SUFFIXES}


def expressions() -> list[tuple[str, str]]:
    rules = yaml.safe_load((CHART / "rules" / "muster.yaml").read_text())
    found = [(rule["alert"], rule["expr"]) for group in rules["groups"] for rule in group["rules"]]
    board = json.loads((CHART / "dashboards" / "muster.json").read_text())
    found += [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel.get("targets", ())]
    return found


@pytest.mark.parametrize(("where", "expression"), expressions())
def test_alerts_and_panels_name_metrics_that_exist(where: str, expression: str) -> None:
    unknown = set(METRIC.findall(expression)) - metrics_in_code()
    assert not unknown, where


def matchers(metric: str, label: str) -> set[str]:
    """Values that expressions want `label` of `metric` to have."""
    found = [re.findall(rf'{metric}\{{[^}}]*\b{label}="([^"]+)"', expression) for _, expression in expressions()]
    return {value for one in found for value in one}


def test_alerts_ask_for_conditions_that_are_told() -> None:
    asked = matchers("muster_cluster_condition", "type")
    assert asked >= {"Ready", "QuorumAvailable", "Degraded"}
    assert asked <= {str(one) for one in ClusterCondition}
    assert matchers("muster_cluster_condition", "status") <= {"True", "False", "Unknown"}


def test_the_golden_rules_are_the_rules() -> None:
    """Helm writes the golden files; a rule that was changed without them is seen here, too."""
    objects = yaml.safe_load_all((ROOT / "e2e" / "golden" / "everything.yaml").read_text())
    (rendered,) = [one["spec"] for one in objects if one and one["kind"] == "PrometheusRule"]
    assert rendered == yaml.safe_load((CHART / "rules" / "muster.yaml").read_text())


def test_the_golden_dashboard_is_the_dashboard() -> None:
    objects = yaml.safe_load_all((ROOT / "e2e" / "golden" / "everything.yaml").read_text())
    (rendered,) = [one["data"] for one in objects if one and "muster.json" in (one.get("data") or {})]
    assert rendered == {"muster.json": (CHART / "dashboards" / "muster.json").read_text()}


def test_every_alert_has_its_runbook_and_names_its_subject() -> None:
    headings = (ROOT / "docs" / "runbooks.md").read_text().lower().splitlines()
    rules = yaml.safe_load((CHART / "rules" / "muster.yaml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            annotations = rule["annotations"]
            assert f"## {rule['alert'].lower()}" in headings, rule["alert"]
            assert annotations["runbook_url"].endswith(f"#{rule['alert'].lower()}")
            if group["name"] == "muster.groups":
                assert "$labels.group" in annotations["summary"]


def test_the_charts_definitions_are_those_of_the_repository() -> None:
    ours = {path.name: path.read_text() for path in (ROOT / "crds").glob("*.yaml")}
    theirs = {path.name: path.read_text() for path in (CHART / "files" / "crds").glob("*.yaml")}
    assert ours
    assert ours == theirs


def role(name: str) -> list[dict[str, list[str]]]:
    found: list[dict[str, list[str]]] = yaml.safe_load((CHART / "files" / f"{name}.yaml").read_text())
    return found


@pytest.mark.parametrize("name", ["rules", "rules-argo-rollouts", "rules-cert-manager", "rules-volumes"])
def test_the_role_is_written_in_order_and_has_no_wildcard(name: str) -> None:
    rules = role(name)
    places = [(rule["apiGroups"], rule["resources"]) for rule in rules]
    assert places == sorted(places)
    for rule in rules:
        assert rule["verbs"] == sorted(rule["verbs"])
        assert "*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])


def test_a_workload_that_the_operator_did_not_make_cannot_be_made_listed_or_deleted_by_it() -> None:
    verbs = {one: rule["verbs"] for rule in (*role("rules"), *role("rules-argo-rollouts")) for one in rule["resources"]}
    for workload in ("deployments", "rollouts"):
        assert (verbs[workload], verbs[f"{workload}/scale"]) == (["get", "patch"], ["patch"])
    assert verbs["statefulsets/scale"] == ["patch"]


@pytest.mark.parametrize(
    ("golden", "added"),
    [
        ("minimal", []),
        ("namespaced", []),
        ("everything", ["rules-argo-rollouts", "rules-cert-manager", "rules-volumes"]),
    ],
)
def test_the_golden_roles_are_the_roles(golden: str, added: list[str]) -> None:
    """A release in some namespaces asks for nothing on the whole cluster, which a Role could not give."""
    objects = yaml.safe_load_all((ROOT / "e2e" / "golden" / f"{golden}.yaml").read_text())
    found = [one["rules"] for one in objects if one and one["kind"] in ("Role", "ClusterRole")]
    served = [rules for rules in found if any("statefulsets" in rule["resources"] for rule in rules)]
    assert served
    assert all(rules == [rule for name in ("rules", *added) for rule in role(name)] for rules in served)


def table_of_rights() -> dict[tuple[str, str], tuple[set[str], str]]:
    """(group, resource) → (verbs, why), of docs/operator.md."""
    text = (ROOT / "docs" / "operator.md").read_text()
    rows = text[text.index("| group | resources | verbs | why |") :].split("\n\n")[0].splitlines()[2:]
    found = {}
    for row in rows:
        group, resources, verbs, why = (cell.strip() for cell in row.strip("|").split(" | "))
        said = verbs.split("; ")
        for number, resource in enumerate(re.sub(r" \(.*\)", "", resources).split(", ")):
            words = set(said[min(number, len(said) - 1)].split(", "))
            found["" if group == "core" else group, resource] = (words, why)
    return found


def test_the_table_of_rights_is_the_role_and_says_why() -> None:
    told = table_of_rights()
    needed: dict[tuple[str, str], set[str]] = {}
    for rule in (*role("rules"), *role("rules-argo-rollouts"), *role("rules-volumes"), *role("rules-cert-manager")):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                needed.setdefault((group, resource), set()).update(rule["verbs"])
    assert {key: verbs for key, (verbs, _) in told.items()} == needed
    assert all(len(why) > 10 for _, why in told.values())


def test_uninstalling_speaks_of_every_kind() -> None:
    """One that is left out holds up the deletion of its definition, or is deleted with it unasked."""
    text = (ROOT / "docs" / "upgrading.md").read_text()
    steps = text[text.index("## Uninstall") :]
    definitions = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
    names = {one["spec"]["names"]["shortNames"][0] for one in definitions}
    deleted = re.findall(r"`kubectl delete ([a-z,]+) --all -A`", steps)
    assert {name for one in deleted for name in one.split(",")} == names
    (gone,) = re.findall(r"`kubectl delete crd ([^`]+)`", steps)
    assert set(gone.split()) == {one["metadata"]["name"] for one in definitions}


def test_no_list_or_watch_of_secrets() -> None:
    rules = role("rules")
    (secrets,) = [rule["verbs"] for rule in rules if "secrets" in rule["resources"]]
    assert secrets == ["create", "delete", "get", "patch"], "no list, no watch: each by its name"


def test_every_value_is_in_the_schema_with_its_type() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    def compare(value: object, rule: dict[str, object], path: str) -> None:
        if isinstance(value, dict) and "properties" in rule:
            properties = rule["properties"]
            assert isinstance(properties, dict)
            assert value.keys() == properties.keys(), path
            assert rule.get("additionalProperties") is False, path
            for key, inner in value.items():
                compare(inner, properties[key], f"{path}.{key}")

    schema["properties"]["resources"]["properties"] = {key: {} for key in values["resources"]}
    compare(values, schema, "values")


def test_alerts_ask_for_results_that_exist() -> None:
    """An alert on a label value that nobody writes never fires."""
    runtime = ROOT / "operator" / "muster_operator" / "runtime"
    written = {
        word for path in runtime.glob("*.py") for word in re.findall(r'Outcome\(result="(\w+)"', path.read_text())
    }
    asked = {
        word
        for _, expression in expressions()
        for matcher in re.findall(r'muster_operator_reconcile_total\{result=~?"([^"]+)"', expression)
        for word in matcher.split("|")
    }
    assert asked
    assert asked <= written
