"""No list and no watch of Secrets: not in any role that the chart binds, and not in what the operator asks for.

A list of Secrets is every password of a namespace at once; `get` of one by its name is what the admin token needs.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from muster_operator.kube.kinds import SECRET, WATCHED

from tests.operator.api.generate import ROOT
from tests.operator.fakes.bench import World, cluster, group, run
from tests.operator.runtime.test_crashes import settled

OPERATOR = ROOT / "operator" / "muster_operator"
RENDERED = sorted((ROOT / "e2e" / "golden").glob("*.yaml"))
WIDE = {"list", "watch", "deletecollection", "*"}


def rules_of(documents: Any) -> Iterator[dict[str, Any]]:
    for one in documents:
        if one and one["kind"] in ("Role", "ClusterRole"):
            yield from one["rules"]


def covers_secrets(rule: dict[str, Any]) -> bool:
    groups, resources = rule.get("apiGroups", []), rule.get("resources", [])
    return bool({"", "*"} & set(groups)) and bool({"secrets", "*"} & set(resources))


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: path.stem)
def test_no_role_of_the_chart_lists_or_watches_secrets(path: Path) -> None:
    rules = list(rules_of(yaml.safe_load_all(path.read_text())))
    wide = [rule for rule in rules if covers_secrets(rule) and WIDE & set(rule["verbs"])]
    assert wide == []
    if path.stem != "bare":
        assert any(covers_secrets(rule) for rule in rules), "else this test sees nothing"


FORBIDDEN_VERBS = {"*", "escalate", "bind", "impersonate"}
FORBIDDEN = {"*", "serviceaccounts/token", "pods/exec", "pods/attach", "pods/portforward", "pods"}
"""Of resources: whoever may create these is whoever he likes to be in the namespace, or in a pod of another."""
CLUSTER_WIDE = {"get", "list"}
"""All that is asked of nodes and volumes, by releases for all namespaces."""


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: path.stem)
def test_no_role_of_the_chart_makes_its_holder_more_than_it_is(path: Path) -> None:
    for rule in rules_of(yaml.safe_load_all(path.read_text())):
        resources, verbs = set(rule.get("resources", ())), set(rule["verbs"])
        assert "nonResourceURLs" not in rule
        assert not verbs & FORBIDDEN_VERBS, rule
        if verbs & {"create", "update", "patch"}:
            assert not resources & FORBIDDEN, rule
        if "rbac.authorization.k8s.io" in rule["apiGroups"] or "*" in rule["apiGroups"]:
            raise AssertionError(f"roles are nobody's but the chart's: {rule}")
        if resources & {"nodes", "persistentvolumes"}:
            assert verbs <= CLUSTER_WIDE, rule


def test_the_shipped_rules_read_secrets_by_name_only() -> None:
    rules = yaml.safe_load((ROOT / "charts" / "muster" / "files" / "rules.yaml").read_text())
    assert [rule["verbs"] for rule in rules if covers_secrets(rule)] == [["create", "delete", "get", "patch"]]


def test_secrets_are_watched_by_nobody() -> None:
    assert SECRET not in WATCHED


def calls_of(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr, node


def test_no_code_asks_for_a_list_of_secrets() -> None:
    """Neither by the kind's name nor by the client's methods; `list` is called with kinds that are WATCHED only."""
    named = {
        f"{path.relative_to(OPERATOR)}: {name}"
        for path in OPERATOR.rglob("*.py")
        for name, _ in calls_of(path)
        if "secret" in name and ("list" in name or "watch" in name or "collection" in name)
    }
    assert named == set()
    listing = {
        str(path.relative_to(OPERATOR))
        for path in OPERATOR.rglob("*.py")
        for name, call in calls_of(path)
        if name in ("list", "begin_list") and any("SECRET" in ast.dump(one) for one in (*call.args, *call.keywords))
    }
    assert listing == set()


def test_a_whole_life_lists_no_secret() -> None:
    """What is really asked: from nothing to a converged cluster and group, and both deleted."""

    async def scene() -> World:
        world = World()
        world.fake.put(cluster())
        world.fake.put(group())
        world.start()
        await settled(world)
        world.fake.remove("ConsumerGroup", "ns", "g")
        world.fake.remove("CoordinatorCluster", "ns", "c")
        await world.run(30_000)
        return world

    asked = {verb for verb, kind, _ in run(scene()).fake.calls if kind == "Secret"}
    assert asked
    assert asked <= {"get", "create", "patch", "delete", "secret_value"}
