"""Every query that is shipped finds something: names, labels and label values, in a scrape of a replica that works.

The replica is real but for its ports: a `Node` that leads, a group that commits, requests through a connection. The
operator's metrics are its own registry. Alerts, panels, variables of the dashboard, and queries in the documentation.
"""

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from muster_coordinator.admin.group_meter import SWEEP_MS, GroupMeter
from muster_coordinator.admin.metrics import ReplicaCollector
from muster_coordinator.admin.node_groups import NodeGroups
from muster_coordinator.admin.request_metrics import RequestCollector
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.ids import BrokerId
from muster_coordinator.records.control import EndMarker, TransactionMarker
from muster_coordinator.replica.transactions.limits import MARKER_LATE_MS
from muster_operator.runtime.metrics import Metrics
from prometheus_client import CollectorRegistry

from tests.admin.test_metrics import Process, Requests
from tests.chart.test_monitors import coordinator_pod, monitor_of
from tests.replica.cluster import SimCluster
from tests.sim.loop import World
from tests.topics.batch_bytes import idempotent

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "charts" / "muster" / "rules" / "muster.yaml"
BOARD = ROOT / "charts" / "muster" / "dashboards" / "muster.json"
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OF_TARGETS = {"namespace", "pod", "job", "instance"}
"""Every series has them, whatever its replica says."""
SELECTOR = re.compile(r"\b(muster_[a-z_]+|up)\b(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
NO_METRICS = re.compile(r"muster_(coordinator|operator|pipeline)(?![a-z_])")
ON_CALL = {
    "muster_groups_without_state", "muster_suspended_groups", "muster_wal_room_bytes", "muster_requests_held_bytes",
    "muster_transfers_installed_total", "muster_transfers_given_up_total", "muster_notices_total",
}  # fmt: skip
"""What somebody who is woken looks at first has a panel."""
Series = dict[str, list[dict[str, str]]]
"""Name of a sample -> label sets; one without labels is there with an empty one."""


@cache
def coordinators() -> Series:
    cluster = SimCluster(World(1), replicas=3)
    cluster.start()
    leader = cluster.wait_leader(1)
    topic = CreateTopic(name="t", topic_id=bytes(15) + b"\1", partitions=1, configs=())
    assert cluster.submit(leader, topic).error == 0
    node = cluster.nodes[leader]
    assert cluster.commit(leader, 0, "orders", 1) == 0
    open_transaction(cluster, leader)
    meter = GroupMeter(node.loop, NodeGroups(node))
    meter.start()
    cluster.world.run_for(2 * SWEEP_MS)
    registry = CollectorRegistry()
    registry.register(ReplicaCollector(node, Process(), meter))
    registry.register(RequestCollector(Requests()))
    found: Series = defaultdict(list)
    for family in registry.collect():
        for sample in family.samples:
            found[sample.name].append(dict(sample.labels))
    return found


def open_transaction(cluster: SimCluster, broker: int) -> None:
    """In the topic, led by `broker`."""
    node = cluster.nodes[broker]
    cluster.world.run_until("the topic is known", lambda: "t" in getattr(node.image(), "topics", ()))
    image = node.image()
    assert image is not None
    group = image.topics["t"].partitions[0].group
    leads = cluster.wait_leader(group)
    if leads != broker:
        assert cluster.nodes[leads].transfer(group, BrokerId(broker))
        cluster.world.run_until("it leads", lambda: cluster.leader_of(group) == broker)
    log = node.local_log(group)
    assert log is not None
    codes: list[int] = []
    number = log.verify(7, 0, 0, implicit=False)
    assert isinstance(number, int)
    deadline_ms = cluster.loops[broker].monotonic_ms() + 1_000
    wall_ms = cluster.loops[broker].wall_ms()
    one = idempotent(0, attributes=0x10, base_timestamp=wall_ms)
    assert log.produce(
        one,
        configs={},
        deadline_ms=deadline_ms,
        done=lambda result: codes.append(result.code),
        verification=number,
    )
    cluster.world.run_until("it is stored", lambda: codes == [0])
    # Of another producer: a marker of a coordinator that is none any more is refused for good.
    newer, older = (TransactionMarker(8, 0, EndMarker(False, epoch), 0) for epoch in (9, 1))
    log.write_marker(newer, deadline_ms=deadline_ms, done=codes.append)
    cluster.world.run_until("it is written", lambda: codes == [0, 0])
    assert node.formed is not None
    node.formed.markers.send(older, ("t", 0), lambda: True, lambda: codes.append(1))
    cluster.world.run_for(MARKER_LATE_MS + 1_000)


@cache
def operators() -> dict[str, set[str]]:
    """Name of a sample -> names of its labels; most have no value before something happens."""
    names = Metrics().registry._collector_to_names
    return {name: set(collector._labelnames) for collector, of_one in names.items() for name in of_one[1:] or of_one}


def brought() -> set[str]:
    """Labels of a coordinator's target beyond the usual: its PodMonitor's."""
    return {re.sub(r"\W", "_", label) for label in monitor_of("coordinator")["podTargetLabels"]}


def expressions() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    board = json.loads(BOARD.read_text())
    for panel in board["panels"]:
        for number, target in enumerate(panel.get("targets", ())):
            yield f"{panel['title']} {number}", target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["query"]
    for path in DOCS:
        for number, code in enumerate(re.findall(r"`([^`\n]*muster_[^`\n]*[({][^`\n]*)`", path.read_text())):
            if path.name != "changelog.md" and not NO_METRICS.search(code):
                yield f"{path.name} {number}", code


def faults(expression: str) -> Iterator[str]:
    """What of a query is nowhere in a scrape."""
    scraped, operator = coordinators(), operators()
    has: set[str] = set()
    for metric, selector in SELECTOR.findall(expression):
        if metric == "up":
            labels, values = brought(), None
        elif metric in scraped:
            labels, values = set().union(*scraped[metric]), scraped[metric]
        elif metric in operator:
            labels, values = operator[metric], None
        else:
            yield f"no metric {metric}"
            continue
        labels = labels | OF_TARGETS
        has |= labels
        for label, how, value in MATCHER.findall(selector or ""):
            if label not in labels:
                yield f"{metric} has no label {label}"
            elif values is not None and label not in OF_TARGETS and "$" not in value:
                met = [one for one in values if matches(one.get(label, ""), how, value)]
                if not met:
                    yield f"no {metric} has {label}{how}{value}"
    for names in GROUPING.findall(expression):
        for name in filter(None, re.split(r"[,\s]+", names)):
            if name not in has:
                yield f"no metric of it has the label {name}"


def matches(found: str, how: str, wanted: str) -> bool:
    same = re.fullmatch(wanted, found) is not None if "~" in how else found == wanted
    return same != how.startswith("!")


@pytest.mark.parametrize(("where", "expression"), [*expressions()])
def test_a_query_finds_what_it_names(where: str, expression: str) -> None:
    assert list(faults(expression)) == [], where


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(BOARD.read_text())["panels"]
    return found


def test_what_somebody_on_call_needs_has_a_panel() -> None:
    shown = {
        name
        for panel in panels()
        for target in panel.get("targets", ())
        for name, _ in SELECTOR.findall(target["expr"])
    }
    assert ON_CALL - shown == set()


def test_a_share_is_of_series_with_the_same_labels() -> None:
    """Prometheus finds no pair otherwise, and the panel stays empty without an error."""
    shares = [expression for _, expression in expressions() if "/" in expression and not re.search(r"\w\(", expression)]
    assert shares
    for expression in shares:
        first, *others = (
            {tuple(sorted(one.items())) for one in coordinators()[name]} for name, _ in SELECTOR.findall(expression)
        )
        assert [other for other in others if other != first] == [], expression


def test_no_panel_covers_another() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels():
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        for place in itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])):
            assert place not in taken, (panel["title"], taken.get(place))
            taken[place] = panel["title"]
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)


def test_a_panel_links_to_runbooks_that_are_written() -> None:
    headings = {line.removeprefix("## ").lower() for line in (ROOT / "docs" / "runbooks.md").read_text().splitlines()}
    linked = [link["url"].partition("#")[2] for panel in panels() for link in panel.get("links", ())]
    assert linked
    assert set(linked) <= headings


def test_there_are_queries_of_each_kind() -> None:
    places = [where for where, _ in expressions()]
    assert len(places) > 30
    assert {"FrequentRebalances", "Commit latency 1", "variable group"} <= set(places)
    assert coordinator_pod()["metadata"]["labels"]


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("rate(muster_request_total[5m])", "no metric muster_request_total"),
        ("muster_rebalances_started", "no metric muster_rebalances_started"),
        ('muster_wal_used_bytes{wal="x"}', "muster_wal_used_bytes has no label wal"),
        ('muster_wal_used_bytes{lane="wal-nobody"}', "no muster_wal_used_bytes has lane=wal-nobody"),
        ('muster_wal_used_bytes{lane=~"wal-o.*x"}', "no muster_wal_used_bytes has lane=~wal-o.*x"),
        ("sum by (group, api) (muster_requests_total)", "no metric of it has the label group"),
        ('muster_operator_reconcile_total{outcome="bug"}', "muster_operator_reconcile_total has no label outcome"),
        ('up{app_kubernetes_io_part="x"}', "up has no label app_kubernetes_io_part"),
    ],
)
def test_a_planted_fault_is_found(expression: str, fault: str) -> None:
    assert list(faults(expression)) == [fault]
