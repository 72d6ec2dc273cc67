"""From nothing to a healthy group, by the README's own commands; what they print is shown, for the README to quote.

The namespace and the release are those that the README names, so this runs once in a node's life.
"""

import re
from collections.abc import Iterator

import pytest

from e2e import readme
from e2e.conftest import FAILED, dump
from e2e.fleet import condition, until
from e2e.node.client import Client
from e2e.node.session import Description

pytestmark = pytest.mark.timeout(900)

NAMESPACE = "flights"
PARTITIONS, RECORDS = 6, 3 * 336_776


@pytest.fixture
def flights(node: Description, request: pytest.FixtureRequest) -> Iterator[Client]:
    """The README's namespace; it and all in it go afterwards, the operator stays for the other tests."""
    client = node.client(NAMESPACE)
    left = ("namespace", NAMESPACE, "--ignore-not-found", "--output=name")
    until("end of the run before", lambda: not client.kubectl("get", *left), 120)
    yield client
    if request.node.stash.get(FAILED, False):
        request.node.add_report_section("teardown", "cluster", dump(client))
    client.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")


def test_the_readme_leads_to_a_healthy_group(flights: Client, node: Description) -> None:
    installed = readme.run(node, "install", timeout_s=300)
    print(installed)
    assert "Phase:          Succeeded" in installed, "helm test"
    warnings = flights.read("events", "--field-selector=type=Warning,involvedObject.kind=CoordinatorCluster")["items"]
    assert [one["reason"] for one in warnings] == [], "nothing is lost while a cluster forms for the first time"
    shown = flights.kubectl("get", "cc", "main")
    print(shown)
    assert re.search(r"^main +3/3 +True +0 +0\.\S+ +AllReady ", shown, re.MULTILINE), "no column is empty"
    print(readme.run(node, "consume", timeout_s=400))
    lines = readme.watch(node, "watch", until=r"^flights +Stable +3/3 +3 +0 +True", timeout_s=300)
    print("\n".join(lines))
    seen = [int(found.group(1)) for line in lines if (found := re.match(r"flights +\w+ +\S+ +\d+ +(\d+) ", line))]
    falling = [lag for before, lag in zip([RECORDS, *seen], seen, strict=False) if lag != before]
    assert falling == sorted(falling, reverse=True), "records are produced before: lag can only fall"
    assert any(0 < lag < RECORDS for lag in seen), f"not only the ends were seen: {seen}"
    looked = readme.run(node, "look", timeout_s=60)
    print(looked)
    status = flights.read("cg", "flights")["status"]
    assert {member["pod"] for member in status["members"]} == {f"flights-{n}" for n in range(3)}
    owned = [part for member in status["members"] for part in member["partitions"]]
    assert len(owned) == 3
    assert all(re.fullmatch(r"flights:\d(-\d|,\d)", part) for part in owned), owned
    assert status["partitions"]["assigned"] == status["partitions"]["committed"] == PARTITIONS
    assert status["lastRebalance"]["cause"] != "UnknownCause"
    assert re.search(r"the coordinator says: .* join", status["lastRebalance"]["message"])
    for kind in ("Ready", "StaticMembership", "ClusterReachable"):
        assert condition({"status": status}, kind)["status"] == "True"
    for word in ("Last Rebalance", "flights-0", "flights:", "StaticMembership", "MembersStatic"):
        assert word in looked
