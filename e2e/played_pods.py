"""Pods that run nowhere: where there are controllers but no node, this writes what a kubelet would.

A StatefulSet's pods get an address and become Ready. A pod that is deleted or evicted stays, terminating, until every
disruption budget's controller has taken note, as it does while real processes end. (One that is back under its name
before that counts as disrupted for two minutes, and nothing else may be evicted.) A finalizer keeps it so long.

What the "processes" in them would answer is `tests.operator.fakes`' part, from the pods as they were seen last
(`objects`, in the form of the fake API server).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from muster_operator.kube.client import MERGE, ApiClient
from muster_operator.kube.kinds import BUDGET, POD, Kind

from tests.operator.fakes.fake_services import FakeAdmin

ADDRESSES = 256 * 250
FINALIZER = "test.muster.dev/process"


class PlayedPods:
    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._count = 0
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        """(kind, namespace, name) → pod."""

    async def step(self, now_ms: int) -> bool:
        """Look at all pods; write what is due. True when nothing was due."""
        pods = await self._list(POD)
        self.objects = {("Pod", self._namespace, pod["metadata"]["name"]): pod for pod in pods}
        ending = [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]
        starting = [pod for pod in pods if "podIP" not in pod["status"] and pod not in ending]
        for pod in starting:
            await self._start(pod, now_ms)
        if ending:
            noted = [budget.get("status", {}).get("disruptedPods") or {} for budget in await self._list(BUDGET)]
            for pod in ending:
                if not any(pod["metadata"]["name"] in names for names in noted):
                    await self._patch(pod, {"metadata": {"finalizers": None}})
        return not starting and not ending

    async def _start(self, pod: Mapping[str, Any], now_ms: int) -> None:
        self._count += 1
        address = f"10.99.{self._count % ADDRESSES // 250}.{self._count % 250 + 1}"
        since = datetime.fromtimestamp(now_ms // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [ready]}
        await self._patch(pod, {"metadata": {"finalizers": [FINALIZER]}})
        await self._patch(pod, {"status": status}, subresource="status")

    async def _list(self, kind: Kind) -> list[dict[str, Any]]:
        answer = await self._client.call("GET", kind.path(namespace=self._namespace), verb="list", kind=kind.kind)
        assert answer.ok, answer.document
        found: list[dict[str, Any]] = answer.document["items"]
        return found

    async def _patch(self, pod: Mapping[str, Any], body: Mapping[str, Any], subresource: str = "") -> None:
        metadata = {"uid": pod["metadata"]["uid"], **body.get("metadata", {})}
        path = POD.path(namespace=self._namespace, name=pod["metadata"]["name"], subresource=subresource)
        answer = await self._client.call(
            "PATCH", path, verb="patch", kind="Pod", body={**body, "metadata": metadata}, content_type=MERGE
        )
        assert answer.ok or answer.status in (404, 409), answer.document  # it may have gone since


class PlayedCoordinators(FakeAdmin):
    """The coordinators in those pods. Nobody answers at the address of a pod that has gone."""

    def __init__(self, pods: PlayedPods) -> None:
        super().__init__(pods)

    def _at(self, host: str) -> str:
        try:
            return super()._at(host)
        except AssertionError:
            return ""
