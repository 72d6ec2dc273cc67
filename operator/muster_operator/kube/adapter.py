"""`ports.Kube` on the real API server. One method sends one request (a list: one per page); no cache, no retry, no
decision.

Writes are server-side applies of complete intents by two field managers of our own, so that fields of users and
autoscalers stay theirs, and every destructive call carries the uid of the object that the decision was about.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from muster_operator import naming
from muster_operator.errors import NotServed, Refused, Transient
from muster_operator.kube.answers import Answer, failure, is_blocked_by_budget, is_uid_mismatch
from muster_operator.kube.client import APPLY, MERGE, STRATEGIC, ApiClient
from muster_operator.kube.kinds import POD, ROLLOUT, SECRET, Kind, kind_of, selector_text
from muster_operator.limits import KUBE_LIST_OBJECTS_MAX, KUBE_LIST_PAGE, KUBE_READ_TIMEOUT_S
from muster_operator.ports import Manifest

_GONE = HTTPStatus.NOT_FOUND


class KubeAdapter:
    """See `ports.Kube`. `read_timeout_s` bounds each answer; leader election uses a shorter one."""

    def __init__(self, client: ApiClient, *, read_timeout_s: float = KUBE_READ_TIMEOUT_S) -> None:
        self._client = client
        self._read_timeout_s = read_timeout_s

    async def get(self, *, api_version: str, kind: str, namespace: str, name: str) -> Manifest | None:
        known = kind_of(api_version, kind)
        answer = await self._call("GET", known, namespace=namespace, name=name, verb="get")
        if answer.status == _GONE:
            return None
        return _object(answer, known, verb="get", name=name)

    async def list(
        self,
        *,
        api_version: str,
        kind: str,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        selector: str = "",
    ) -> Sequence[Manifest]:
        known = kind_of(api_version, kind)
        query = {"limit": str(KUBE_LIST_PAGE)}
        if labels or selector:
            query["labelSelector"] = selector or selector_text(labels or {})
        found: list[Manifest] = []
        while True:
            answer = await self._call("GET", known, namespace=namespace, verb="list", query=query)
            if answer.status == HTTPStatus.GONE:
                raise Transient("ListExpired", f"list {kind}: the list changed too much while it was read")
            if (
                answer.status == HTTPStatus.NOT_FOUND
            ):  # for an unknown namespace the API server answers 200 with an empty list
                raise NotServed("NotServed", f"list {kind}: the API server has no {known.plural} of {api_version}")
            page = _object(answer, known, verb="list", name="")
            found += [{"apiVersion": api_version, "kind": kind, **item} for item in page.get("items") or ()]
            if len(found) > KUBE_LIST_OBJECTS_MAX:
                raise Refused("TooManyObjects", f"list {kind}: more than {KUBE_LIST_OBJECTS_MAX} objects")
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                return found
            query["continue"] = more

    async def apply(self, manifest: Manifest) -> Manifest:
        known, namespace, name = _identity(manifest)
        answer = await self._call(
            "PATCH", known, namespace=namespace, name=name, verb="patch", content_type=APPLY, body=manifest,
            query={"fieldManager": naming.FIELD_MANAGER, "force": "true"},
        )  # fmt: skip
        return _object(answer, known, verb="apply", name=name)

    async def apply_status(self, manifest: Manifest) -> Manifest | None:
        known, namespace, name = _identity(manifest)
        answer = await self._call(
            "PATCH", known, namespace=namespace, name=name, subresource="status", verb="patch", content_type=APPLY,
            body=manifest, query={"fieldManager": naming.STATUS_MANAGER, "force": "true"},
        )  # fmt: skip
        if answer.status == _GONE:
            return None
        return _object(answer, known, verb="apply status of", name=name)

    async def create(self, manifest: Manifest) -> bool:
        known, namespace, name = _identity(manifest)
        answer = await self._call(
            "POST", known, namespace=namespace, verb="create", body=manifest,
            query={"fieldManager": naming.FIELD_MANAGER},
        )  # fmt: skip
        if answer.status == HTTPStatus.CONFLICT and answer.document.get("reason") == "AlreadyExists":
            return False
        _object(answer, known, verb="create", name=name)
        return True

    async def replace(self, manifest: Manifest) -> Manifest:
        known, namespace, name = _identity(manifest)
        answer = await self._call("PUT", known, namespace=namespace, name=name, verb="update", body=manifest)
        return _object(answer, known, verb="update", name=name)

    async def patch(self, manifest: Manifest) -> bool:
        known, namespace, name = _identity(manifest)
        answer = await self._call(
            "PATCH", known, namespace=namespace, name=name, verb="patch", content_type=MERGE, body=manifest
        )
        if answer.status == _GONE:
            return False
        _object(answer, known, verb="patch", name=name)
        return True

    async def scale(self, *, api_version: str, kind: str, namespace: str, name: str, replicas: int) -> bool:
        return await self._change(
            kind_of(api_version, kind), namespace, name, {"spec": {"replicas": replicas}}, subresource="scale"
        )

    async def restart(self, *, api_version: str, kind: str, namespace: str, name: str, at: str) -> bool:
        known = kind_of(api_version, kind)
        if known is ROLLOUT:
            return await self._change(known, namespace, name, {"spec": {"restartAt": at}})
        annotations = {naming.RESTART_ANNOTATION: at}
        body = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        return await self._change(known, namespace, name, body, content_type=STRATEGIC)

    async def _change(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Manifest,
        *,
        subresource: str = "",
        content_type: str = MERGE,
    ) -> bool:
        """Change one field of an object that another owner manages."""
        answer = await self._call(
            "PATCH", kind, namespace=namespace, name=name, subresource=subresource, verb="patch",
            content_type=content_type, body=body, query={"fieldManager": naming.FIELD_MANAGER},
        )  # fmt: skip
        if answer.status == _GONE:
            return False
        _object(answer, kind, verb="patch", name=name)
        return True

    async def delete(
        self, *, api_version: str, kind: str, namespace: str, name: str, uid: str, at_once: bool = False
    ) -> bool:
        known = kind_of(api_version, kind)
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        if at_once:
            options["gracePeriodSeconds"] = 0
        answer = await self._call("DELETE", known, namespace=namespace, name=name, verb="delete", body=options)
        if answer.status == _GONE or is_uid_mismatch(answer):
            return False
        _object(answer, known, verb="delete", name=name)
        return True

    async def evict(self, *, namespace: str, pod: str, uid: str) -> bool:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        answer = await self._call(
            "POST", POD, namespace=namespace, name=pod, subresource="eviction", verb="evict", body=eviction
        )
        if answer.status == _GONE or is_uid_mismatch(answer):
            return True
        if is_blocked_by_budget(answer):
            return False
        _object(answer, POD, verb="evict", name=pod)
        return True

    async def secret_value(self, *, namespace: str, name: str, key: str) -> str | None:
        found = await self.get(api_version=SECRET.api_version, kind=SECRET.kind, namespace=namespace, name=name)
        encoded = ((found or {}).get("data") or {}).get(key)
        if encoded is None:
            return None
        try:
            return base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise Refused("SecretUnreadable", f"Secret {name}: {key} is not text") from None

    async def _call(
        self,
        method: str,
        kind: Kind,
        *,
        namespace: str,
        verb: str,
        name: str = "",
        subresource: str = "",
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        path = kind.path(namespace=namespace, name=name, subresource=subresource)
        label = f"{kind.kind}/{subresource}" if subresource else kind.kind
        return await self._client.call(
            method, path, verb=verb, kind=label, query=query, body=body, content_type=content_type,
            read_timeout_s=self._read_timeout_s,
        )  # fmt: skip


def _identity(manifest: Manifest) -> tuple[Kind, str, str]:
    metadata = manifest["metadata"]
    return kind_of(manifest["apiVersion"], manifest["kind"]), metadata["namespace"], metadata["name"]


def _object(answer: Answer, kind: Kind, *, verb: str, name: str) -> Mapping[str, Any]:
    if not answer.ok:
        raise failure(answer, verb=verb, kind=kind.kind, name=name)
    return answer.document
