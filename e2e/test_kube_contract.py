"""A real kube-apiserver keeps the contract that the operator's fake is written to, by way of its own adapter."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from muster_operator.kube.adapter import KubeAdapter
from muster_operator.kube.client import ApiClient, configuration
from muster_operator.ports import Kube
from muster_operator.runtime.clock import SystemClock

from e2e.node.client import Client
from e2e.operator_process import install_crds
from tests.operator.fakes.kube_contract import EXPECTATIONS


@pytest.fixture(scope="module")
def kube(api: Client) -> Iterator[KubeAdapter]:
    """The operator's adapter, with our CRDs served."""
    install_crds(api)
    client = ApiClient(
        configuration(str(api.kubeconfig)), clock=SystemClock(), observe=lambda verb, kind, code, seconds: None
    )
    try:
        yield KubeAdapter(client)
    finally:
        client.close()


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=lambda one: one.__name__)
def test_real(expectation: Callable[[Kube, str], Awaitable[None]], kube: KubeAdapter, api: Client) -> None:
    namespace = expectation.__name__.replace("_", "-")[:50].strip("-")
    api.kubectl("create", "namespace", namespace)
    api.kubectl("create", "serviceaccount", "default", f"--namespace={namespace}")  # no controller makes it here
    asyncio.run(expectation(kube, namespace))
