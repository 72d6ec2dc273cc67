"""The shipped role against what the operator really asked of the API server in this session, both ways.

`test_no_verb_is_unused` is run after all others (`conftest.pytest_collection_finish`) and judges only a whole, green
suite: half a suite uses half of the verbs.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from e2e.audit import USER
from e2e.node import paths
from e2e.node.client import Client
from e2e.node.session import Description

FILES = paths.ROOT / "charts" / "muster" / "files"
E2E = Path(__file__).parent
CREATED = 201
ASKED_BY_ADMISSION = "finalizers"
"""`update` on it is asked by admission plugin OwnerReferencesPermissionEnforcement, which is on: no request shows it,
but without the right every child is refused."""


class Right(NamedTuple):
    """As a role writes it: "" is the core group, resources have their subresource."""

    group: str
    resource: str
    verb: str


def rights_of(rules: list[dict[str, Any]]) -> set[Right]:
    return {
        Right(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def shipped() -> set[Right]:
    """Of the role that the chart binds, and of the Lease's."""
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]}
    found = [yaml.safe_load((FILES / name).read_text()) for name in ("rules.yaml", "rules-volumes.yaml")]
    return rights_of([*found[0], *found[1], lease])


def of_cert_manager() -> set[Right]:
    """With `rbac.certManager`, as `test_cert_manager_on_a_node` has it for as long as it lasts."""
    return rights_of(yaml.safe_load((FILES / "rules-cert-manager.yaml").read_text()))


def requests(node: Description, since: datetime) -> Iterator[dict[str, Any]]:
    """The operator's requests about objects, those of its binding's second and later."""
    with (node.state / "logs" / "audit.log").open() as log:
        for line in log:
            if line.endswith("\n"):
                event = json.loads(line)
                late = datetime.fromisoformat(event["requestReceivedTimestamp"]) >= since
                if late and event["user"]["username"] == USER and "objectRef" in event:
                    yield event


@pytest.fixture
def bound_at(operator: Client) -> datetime:
    """When this session's operator got its role. `test_first_install` has releases of that name before, with less: what
    those were refused is theirs."""
    binding = operator.read("clusterrolebinding", "muster-operator")
    return datetime.fromisoformat(binding["metadata"]["creationTimestamp"])


def used(event: dict[str, Any]) -> Iterator[Right]:
    """What a request needs. Server-side apply that makes its object needs `create` beside `patch`."""
    about = event["objectRef"]
    resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    yield Right(about.get("apiGroup", ""), resource, event["verb"])
    if event["verb"] == "patch" and event["responseStatus"].get("code") == CREATED:
        yield Right(about.get("apiGroup", ""), resource, "create")


def whole_suite(session: pytest.Session) -> str | None:
    """Why this session is not the whole suite; None when it is."""
    options = session.config.option
    if options.keyword or options.markexpr or getattr(options, "lf", False):
        return "tests were chosen"
    missing = {path.name for path in E2E.glob("test_*.py")} - {item.path.name for item in session.items}
    of_other_rungs = {"test_sandbox.py", "test_dockerfile.py", "test_kind_sandbox.py", "test_kind_nodes.py"}
    if missing - of_other_rungs:
        return f"without {', '.join(sorted(missing - of_other_rungs))}"
    return f"{session.testsfailed} tests failed" if session.testsfailed else None


def test_the_operator_runs_under_exactly_the_shipped_role(operator: Client) -> None:
    """The API server's own view of the account: no other binding gives it more."""
    bindings = operator.read("rolebindings,clusterrolebindings", "--all-namespaces")["items"]
    account = {"kind": "ServiceAccount", "name": "muster-operator", "namespace": operator.namespace}
    mine = {(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in bindings if account in one.get("subjects", ())}
    assert mine == {("ClusterRole", "muster-operator"), ("Role", "muster-operator-lease")}
    bound = operator.read("clusterrole", "muster-operator")["rules"]
    lease = operator.read("role", "muster-operator-lease")["rules"]
    assert rights_of([*bound, *lease]) == shipped()
    named = [rule for rule in lease if "create" not in rule["verbs"]]
    assert [rule["resourceNames"] for rule in named] == [["muster-operator"]]


def forbidden(events: Iterable[dict[str, Any]]) -> set[tuple[Right, str]]:
    """Rights that were refused in a namespace, but for those that were granted there before and after: an API server
    that starts refuses everybody until it has read the roles (`test_api_server` starts it anew)."""
    granted: set[tuple[Right, str]] = set()
    refused: set[tuple[Right, str]] = set()
    never: set[tuple[Right, str]] = set()
    for event in sorted(events, key=lambda one: str(one["requestReceivedTimestamp"])):
        asked = {(right, event["objectRef"].get("namespace", "")) for right in used(event)}
        if event["annotations"]["authorization.k8s.io/decision"] == "allow":
            granted |= asked
            refused -= asked
        else:
            refused |= asked & granted
            never |= asked - granted
    return refused | never


def test_what_is_refused_only_while_an_api_server_starts_is_forgiven() -> None:
    def event(second: int, decision: str, verb: str = "get", namespace: str = "shop") -> dict[str, Any]:
        return {
            "requestReceivedTimestamp": f"2026-01-01T00:00:{second:02}.000000Z",
            "verb": verb,
            "objectRef": {"resource": "secrets", "namespace": namespace},
            "annotations": {"authorization.k8s.io/decision": decision},
            "responseStatus": {},
        }

    assert forbidden([event(3, "allow"), event(1, "allow"), event(2, "forbid")]) == set()
    right = Right("", "secrets", "get")
    assert forbidden([event(1, "allow"), event(2, "forbid")]) == {(right, "shop")}
    assert forbidden([event(1, "forbid"), event(2, "allow")]) == {(right, "shop")}
    assert forbidden([event(1, "allow"), event(2, "forbid", namespace="other"), event(3, "allow")]) == {
        (right, "other")
    }


@pytest.mark.last
def test_nothing_was_forbidden(bound_at: datetime, node: Description) -> None:
    """403 for a namespace that is being deleted is no matter of rights: the authorizer had allowed it."""
    events = list(requests(node, bound_at))
    assert any(event["annotations"]["authorization.k8s.io/decision"] == "allow" for event in events)
    assert forbidden(events) == set()


@pytest.mark.last
def test_no_verb_is_unused(bound_at: datetime, node: Description, request: pytest.FixtureRequest) -> None:
    reason = whole_suite(request.session)
    if reason is not None:
        pytest.skip(f"judges the whole suite only: {reason}")
    asked = {right for event in requests(node, bound_at) for right in used(event)}
    # What `test_argo_rollouts` adds for a while.
    on_rollouts = rights_of(yaml.safe_load((FILES / "rules-argo-rollouts.yaml").read_text()))
    granted = {right for right in shipped() | on_rollouts if not right.resource.endswith(f"/{ASKED_BY_ADMISSION}")}
    granted |= of_cert_manager() if asked & of_cert_manager() else set()
    unused = granted - asked
    assert unused == set(), "take them out of charts/muster/files/rules.yaml, or test what needs them"
    assert asked <= granted
