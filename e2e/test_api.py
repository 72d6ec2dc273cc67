"""The API-only rung is a real API server: it validates, it has no controllers, and several may run at once."""

import pytest

from e2e.node import session
from e2e.node.client import Client, Refused

pytestmark = pytest.mark.timeout(120)

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}


def test_it_is_the_release_that_was_built(api: Client) -> None:
    assert f"Server Version: {api.tools.kubernetes_version}" in api.kubectl("version")


def test_it_refuses_a_field_that_does_not_exist(api: Client) -> None:
    with pytest.raises(Refused, match='unknown field "dta"'):
        api.apply({**CONFIG_MAP, "dta": {}})
    api.apply(CONFIG_MAP)
    assert api.read("configmap", "settings")["data"] == {"a": "b"}


def test_nothing_acts_on_objects(api: Client) -> None:
    with pytest.raises(Refused, match="not found"):
        api.read("serviceaccount", "default")  # a controller's work


def test_two_at_once(api: Client, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = session.api_only(tmp_path_factory.mktemp("other"))
    try:
        client = Client(tools=other.tools, kubeconfig=other.kubeconfig)
        client.kubectl("create", "namespace", "only-here")
        with pytest.raises(Refused, match="not found"):
            api.read("namespace", "only-here")
    finally:
        other.stop()


def test_helm_talks_to_it(api: Client) -> None:
    assert "NAME" in api.helm("list")
