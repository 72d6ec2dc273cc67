"""The fake API server keeps the contract that e2e/test_kube_contract.py holds against a real one."""

from collections.abc import Awaitable, Callable

import pytest
from muster_operator.ports import Kube

from tests.operator.fakes.bench import run
from tests.operator.fakes.fake_kube import FakeKube
from tests.operator.fakes.kube_contract import EXPECTATIONS


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=lambda one: one.__name__)
def test_fake(expectation: Callable[[Kube, str], Awaitable[None]]) -> None:
    run(expectation(FakeKube(), "ns"))
