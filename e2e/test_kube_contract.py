"""A real kube-apiserver keeps the contract that the operator's fake is written to, by way of its own adapter."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from muster_operator.kube.adapter import KubeAdapter
from muster_operator.kube.client import ApiClient
from muster_operator.kube.login import Login
from muster_operator.ports import Kube
from muster_operator.runtime.clock import SystemClock

from e2e.node.client import Client
from e2e.operator_process import install_crds
from tests.operator.fakes.kube_contract import EXPECTATIONS


@pytest.fixture(scope="module")
def login(api: Client) -> Login:
    """To an API server that serves our CRDs."""
    install_crds(api)
    return Login(str(api.kubeconfig))


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=lambda one: one.__name__)
def test_real(expectation: Callable[[Kube, str], Awaitable[None]], login: Login, api: Client) -> None:
    namespace = expectation.__name__.replace("_", "-")[:50].strip("-")
    api.kubectl("create", "namespace", namespace)
    api.kubectl("create", "serviceaccount", "default", f"--namespace={namespace}")  # no controller makes it here

    async def scene() -> None:
        async with ApiClient(login, clock=SystemClock(), observe=lambda verb, kind, code, seconds: None) as client:
            await expectation(KubeAdapter(client), namespace)

    asyncio.run(scene())
