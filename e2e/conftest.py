"""Fixtures of the end-to-end tests.

`node`       the real node this pytest runs on (started by `make e2e`, or `make e2e-in` on one that stays up)
`namespace`  a kubectl/helm client in a namespace of the test's own, deleted afterwards
`shared`     one CoordinatorCluster of the chart's operator; `group` makes the test's own group of real consumers on it
`idle_measure` 200 ConsumerGroups without traffic for five minutes, beside the first tests
`api`        a real etcd and kube-apiserver on loopback, no controllers, no root; one a session

When a test fails, what its namespace holds (objects, events, logs) is added to its report, bounded.
Without the part it needs a test is skipped with the reason, or fails where MUSTER_REQUIRE says `all`, `node` or `api`.
"""

import os
import re
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import fleet, more_images
from e2e import idle_measure as idle
from e2e.bare import clean
from e2e.fleet import SESSION_S, Cluster, Group
from e2e.kind import make as kind
from e2e.node import packages, session, volumes
from e2e.node.client import Client
from e2e.node.errors import Broken, Unavailable
from e2e.node.session import STATE_VARIABLE, Description
from tests.conftest import pytest_terminal_summary as pytest_terminal_summary
from tests.machine_parts import give_up as missing

DUMP_CHARS_MAX = 20_000
LOG_LINES_MAX = 60
NAME_CHARS_MAX = 50
GROUP_NAME_CHARS_MAX = 40
RUNG_OF_FIXTURE = {
    "outside_a_sandbox": "box", "outside_with_docker": "docker",
    "node": "node", "namespace": "node", "elsewhere": "node", "bare": "node", "operator": "node", "shared": "node",
    "nodes": "kind",
}  # fmt: skip
RUNGS = ("api", "box", "docker", "node", "kind")  # "api" is also what needs no fixture at all
FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rung",
        choices=RUNGS,
        action="append",
        default=[],
        help="run only the tests of this rung (more than once: or)",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each test belongs to the highest rung that its fixtures need; `--rung` chooses."""
    wanted = set(config.getoption("--rung")) or set(RUNGS)
    state = os.environ.get(STATE_VARIABLE)
    if state is not None:
        wanted -= {"box", "docker"}  # sandboxes do not nest; `make e2e` runs those before it starts one
        if len(Description.read(Path(state)).nodes) == 1:
            wanted -= {"kind"}  # `make e2e-kind` runs those
    rungs = {}
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        rungs[item] = max((RUNG_OF_FIXTURE.get(name, "api") for name in fixtures), key=RUNGS.index, default="api")
    config.hook.pytest_deselected(items=[item for item in items if rungs[item] not in wanted])
    items[:] = [item for item in items if rungs[item] in wanted]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "first: before all others, in whatever order those are (it starts what is measured beside them)"
    )
    config.addinivalue_line("markers", "last: after all others (it judges what they did)")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """After every plugin has ordered the tests."""
    session.items.sort(key=place_of)


def place_of(item: pytest.Item) -> int:
    """First, somewhere, last."""
    if item.get_closest_marker("first") is not None:
        return 0
    return 1 if item.get_closest_marker("last") is None else 2


@pytest.fixture(scope="session")
def outside_a_sandbox() -> None:
    """For tests of the sandbox itself: root, on the machine rather than in a sandbox (sandboxes do not nest)."""
    if os.geteuid() != 0:
        missing("box", "a sandbox needs root")


@pytest.fixture(scope="session")
def outside_with_docker(outside_a_sandbox: None) -> None:
    """For tests of Docker in a sandbox: what that takes can be had."""
    try:
        packages.ensure(kind.NEEDS)
    except Unavailable as reason:
        missing("docker", str(reason))


@pytest.fixture(scope="session")
def node() -> Description:
    """The node around this process: images by name, and a client as cluster administrator."""
    state = os.environ.get(STATE_VARIABLE)
    if state is None:
        missing("node", os.environ.get("MUSTER_E2E_MISSING", "not inside a node's sandbox; `make e2e` starts one"))
    return Description.read(Path(state))


@pytest.fixture(scope="session")
def nodes(node: Description) -> Description:
    """Three nodes; `make e2e-kind` starts them."""
    if len(node.nodes) == 1:
        missing("kind", "one node only; `make e2e-kind` starts three")
    return node


@pytest.fixture
def namespace(node: Description, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A namespace named after the test; its volumes are emptied and offered again when a later test starts."""
    readable = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:NAME_CHARS_MAX].strip("-")
    name = f"{readable}-{uuid.uuid4().hex[:5]}"  # the namespace of the run before may still be going
    volumes.recycle(node.client(), node.state / "volumes.lock")
    client = node.client(name)
    client.kubectl("create", "namespace", name)
    yield client
    if request.node.stash.get(FAILED, False):
        request.node.add_report_section("teardown", "cluster", dump(client))
    client.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def elsewhere(node: Description) -> Iterator[Client]:
    """A second namespace of the test's own."""
    name = f"elsewhere-{uuid.uuid4().hex[:5]}"
    client = node.client(name)
    client.kubectl("create", "namespace", name)
    yield client
    client.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def bare(node: Description) -> Iterator[Client]:
    """A node without anything of ours, before and after; only for tests marked `first`."""
    client = node.client()
    clean(client)
    yield client
    clean(client)


@pytest.fixture(scope="session")
def operator(node: Description) -> Client:
    """The operator, installed by the chart under exactly its shipped role; one a session."""
    return fleet.install_operator(node)


@pytest.fixture(scope="session")
def lake_images(node: Description) -> tuple[str, str]:
    """Names of the pipeline's image and of the object store's, on the node."""
    try:
        return more_images.load(more_images.pipeline(), node), more_images.load(more_images.object_store(), node)
    except Unavailable as reason:
        missing("node", str(reason))


@pytest.fixture(scope="session")
def shared(operator: Client, node: Description, request: pytest.FixtureRequest) -> Cluster:
    """One CoordinatorCluster for all tests that leave it as it was."""
    client = node.client("shared")
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": client.namespace}})
    cluster = Cluster.create(client).ready()
    if len(node.nodes) > 1:
        tell(
            request, *(f"{pod['spec']['nodeName']}: coordinator {name}" for name, pod in sorted(cluster.pods().items()))
        )
    return cluster


def tell(request: pytest.FixtureRequest, *lines: str) -> None:
    """To whoever watches the run, whatever is captured."""
    plugins = request.config.pluginmanager
    reporter, capture = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")
    if reporter is not None and capture is not None:
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            for line in lines:
                reporter.write_line(line)


@pytest.fixture
def group(shared: Cluster, node: Description, request: pytest.FixtureRequest) -> Iterator[Callable[..., Group]]:
    """Makes the test's group, Stable, with records consumed; deletes it afterwards."""
    made: list[Group] = []

    def make(*, static: bool = True, replicas: int = 3, session_s: int = SESSION_S, **spec: Any) -> Group:
        words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))
        name = words[:GROUP_NAME_CHARS_MAX].strip("-")
        one = Group(cluster=shared, image=node.demo_image, name=name, static=static, session_s=session_s, spec=spec)
        made.append(one.create(replicas))
        one.stable(replicas)
        one.produce(300)
        one.all_seen()
        return one

    yield make
    if request.node.stash.get(FAILED, False):
        request.node.add_report_section("teardown", "cluster", dump(shared.client))
    for one in made:
        one.delete()


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a real API server without controllers: CRDs, validation, RBAC, watches and apply are real."""
    try:
        plane = session.api_only(tmp_path_factory.mktemp("api"))
    except Unavailable as reason:
        missing("api", str(reason))
    try:
        yield Client(tools=plane.tools, kubeconfig=plane.kubeconfig)
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def idle_measure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[idle.IdleMeasure]:
    """A fleet that nobody uses, with an API server and an operator of its own; gone when it was measured."""
    with idle.idle_measure(tmp_path_factory.mktemp("idle")) as measure:
        try:
            measure.converged_s()
        except Unavailable as reason:
            missing("api", str(reason))
        yield measure


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


def dump(client: Client) -> str:
    """What the namespace holds: objects, descriptions of pods, events, ends of logs; at most DUMP_CHARS_MAX."""
    kinds = "pods,statefulsets,services,endpointslices,pvc,pdb,coordinatorclusters,consumergroups,mt,mu"
    questions = [
        ("get", "pods,statefulsets,services,endpointslices,pvc,pdb", "--output=wide"),
        ("get", kinds, "--output=yaml", "--ignore-not-found"),
        ("get", "events", "--sort-by=.lastTimestamp"),
        ("describe", "pods"),
    ]
    texts = []
    for words in questions:
        texts.append(f"$ kubectl {' '.join(words)}\n{_said(client, *words)}")
    for pod in _said(client, "get", "pods", "--output=name").split():
        for words in (("logs", pod), ("logs", pod, "--previous")):
            wanted = (*words, "--all-containers", f"--tail={LOG_LINES_MAX}")
            texts.append(f"$ kubectl {' '.join(words)}\n{_said(client, *wanted)}")
    share = DUMP_CHARS_MAX // len(texts)
    # Both ends: how it began, and what it said last.
    half = share // 2
    return "\n".join(
        text if len(text) <= share else f"{text[:half]}\n… {len(text) - 2 * half} characters …\n{text[-half:]}"
        for text in texts
    )


def _said(client: Client, *words: str) -> str:
    try:
        return client.kubectl(*words, timeout_s=20)
    except Broken as error:
        return str(error)
