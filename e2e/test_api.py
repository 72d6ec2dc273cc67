"""The API-only rung is a real API server: it validates, it has no controllers, and several may run at once;
none outlives its owner.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from e2e.node import daemon, session
from e2e.node.client import Client, Refused
from e2e.node.sandbox import start_ticks

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


def test_a_killed_owner_takes_it_along(tmp_path: Path) -> None:
    script = f"""
import signal
from pathlib import Path
from e2e.node import session
plane = session.api_only(Path({str(tmp_path)!r}))
print(*(each.process.pid for each in plane.daemons), flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            pids = [int(word) for word in owner.stdout.readline().split()]
        finally:
            owner.kill()
    assert len(pids) == 2, "etcd and kube-apiserver"
    daemon.until("end of both", lambda: not any(start_ticks(pid) for pid in pids), 20)
