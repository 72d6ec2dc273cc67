"""The shipped rules over what the shipped monitors scrape, while a coordinator is killed and a group lags.

No alert is named here: whatever fires has to be about the pod that was killed and the group that lags, and nothing
else fires. Times are the rules' own; a whole run takes about eight minutes.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from e2e.cut import process_of
from e2e.fleet import OPERATOR_NAMESPACE, Cluster, install_operator
from e2e.node.client import Client
from e2e.node.session import Description
from e2e.scraping import definitions, scraping

pytestmark = pytest.mark.timeout(1_100)

CLUSTER, LAGGING = "scraped", "lagging"
VICTIM = f"{CLUSTER}-1"
INTERVAL_S = 10
CALM_SCRAPES = 3
MARGIN_SCRAPES = 4
CLEAR_SCRAPES = 12
RECORDS = 12_000
FIRING = 'ALERTS{alertstate="firing"'


@pytest.fixture
def monitored(operator: Client, node: Description) -> Iterator[Client]:
    """The release with its monitors and rules, on an API server that knows those kinds."""
    operator.apply(*definitions())
    names = [one["metadata"]["name"] for one in definitions()]
    try:
        operator.kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in names), "--timeout=30s")
        install_operator(node, "--set=metrics.podMonitor.enabled=true", "--set=metrics.rules.enabled=true")
        yield operator
    finally:
        install_operator(node)
        operator.kubectl("delete", "crd", *names)


@contextmanager
def kept_down(pod: str) -> Iterator[None]:
    """Its process is killed as often as the kubelet starts it."""
    ended, killed = threading.Event(), []

    def kill() -> None:
        while not ended.wait(0.3):
            try:
                process = process_of(pod)
                os.kill(process, signal.SIGKILL)
            except (AssertionError, ProcessLookupError):
                continue
            killed.append(process)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)
    print(f"{pod}: killed {len(set(killed))} times")
    assert killed


def commit(cluster: Cluster, offset: int) -> None:
    client = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": LAGGING, "enable.auto.commit": False})
    client.commit(offsets=[TopicPartition(LAGGING, 0, offset)], asynchronous=False)
    client.close()


def test_what_is_scraped_makes_the_alerts_fire_and_clear(monitored: Client, namespace: Client, tmp_path: Path) -> None:
    cluster = Cluster.create(namespace, CLUSTER, offsetsPartitions=5).ready()
    cluster.create_topic(LAGGING, 1)
    commit(cluster, 0)
    with scraping(monitored, INTERVAL_S) as scrapes:
        calm = scrapes.wait(CALM_SCRAPES)
        cluster.produce(LAGGING, [str(number) for number in range(RECORDS)])
        with kept_down(VICTIM):
            hurt = scrapes.wait(scrapes.longest_for_s() // INTERVAL_S + MARGIN_SCRAPES)
        commit(cluster, RECORDS)
        namespace.kubectl("delete", "pod", VICTIM)  # else the kubelet waits for minutes before it starts it again
        cluster.ready()
        clear = scrapes.wait(CLEAR_SCRAPES)
    shop = f'namespace=~"{namespace.namespace}|{OPERATOR_NAMESPACE}|"'  # other tests' clusters are scraped as well
    nothing = f"{FIRING}, {shop}}}"
    about_the_pod = f'count by (pod) ({FIRING}, {shop}, pod="{VICTIM}"}}) > bool 0'
    about_the_group = f'count by (group) ({FIRING}, {shop}, group="{LAGGING}"}}) > bool 0'
    others = f'{FIRING}, {shop}, pod!="{VICTIM}", group!="{LAGGING}"}}'
    print("said when it was worst:", scrapes.hold(tmp_path, [(hurt, nothing, [])]))
    said = scrapes.hold(
        tmp_path,
        [
            *((at, nothing, []) for at in range(calm + 1)),
            (hurt, about_the_pod, [{"labels": f'{{pod="{VICTIM}"}}', "value": 1}]),
            (hurt, about_the_group, [{"labels": f'{{group="{LAGGING}"}}', "value": 1}]),
            *((at, others, []) for at in range(calm + 1, clear + 1)),
            (clear, nothing, []),
        ],
    )
    assert said == "", said
    asked = {one for samples in scrapes.found for one in samples if dict(one)["__name__"] == "up"}
    pods = {dict(one)["pod"] for one in asked if dict(one)["namespace"] == namespace.namespace}
    assert pods == set(cluster.pods())
    assert any(dict(one)["namespace"] == OPERATOR_NAMESPACE for one in asked), "the operator is scraped as well"
