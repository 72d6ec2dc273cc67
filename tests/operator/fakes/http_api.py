"""A small API server over HTTP on loopback, for what must meet real sockets: kopf, the client, credentials.

It serves discovery, lists and watches of the watched kinds, and counts what else is asked. It has no schemas, no fields
and no rules; the contract of writes is `fake_kube`'s part.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web
from muster_operator.kube.kinds import WATCHED, Kind

Object = dict[str, Any]
_NAMESPACE = Kind(api_version="v1", kind="Namespace", plural="namespaces")
_EVENT = Kind(api_version="v1", kind="Event", plural="events")


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    token: str
    body: Any
    content_type: str = ""


@dataclass
class HttpApi:
    """An asynchronous context; inside it listens at `address`."""

    token: str | None = None
    """The one that is let in; None: anybody."""
    refused: set[str] = field(default_factory=set)
    """`namespace/plural` that answer 403."""
    served: tuple[Kind, ...] = tuple(WATCHED)
    undefined: set[str] = field(default_factory=set)
    """Plurals that do not exist."""
    requests: list[Request] = field(default_factory=list)
    address: str = ""
    version: int = 100
    objects: dict[str, dict[tuple[str, str], Object]] = field(default_factory=lambda: defaultdict(dict))
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _watchers: dict[str, set["asyncio.Queue[Object | None]"]] = field(default_factory=lambda: defaultdict(set))

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.break_watches()
        await self._runner.cleanup()

    def put(self, kind: Kind, name: str, *, namespace: str = "a", silently: bool = False, **more: Any) -> Object:
        """Make or change an object; who watches is told."""
        self.version += 1
        key = (namespace, name)
        change = "MODIFIED" if key in self.objects[kind.plural] else "ADDED"
        metadata = {"name": name, "namespace": namespace, "uid": f"uid-{kind.plural}-{name}",
                    "resourceVersion": str(self.version)}  # fmt: skip
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": metadata | more.pop("metadata", {}),
            **more,
        }
        self.objects[kind.plural][key] = body
        if not silently:
            self._tell(kind, change, body)
        return body

    def remove(self, kind: Kind, name: str, *, namespace: str = "a", silently: bool = False) -> None:
        self.version += 1
        body = self.objects[kind.plural].pop((namespace, name))
        if not silently:
            self._tell(kind, "DELETED", body)

    def break_watches(self) -> None:
        """End every watch that runs."""
        for queue in [one for found in self._watchers.values() for one in found]:
            queue.put_nowait(None)

    def expire_watches(self) -> None:
        """Tell every watch that what it knows is too old (410), as after a pause."""
        for queue in [one for found in self._watchers.values() for one in found]:
            queue.put_nowait({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})

    def watched(self, kind: Kind) -> int:
        """Watches of a kind that run."""
        return len(self._watchers[kind.plural])

    def writes(self) -> list[Request]:
        return [one for one in self.requests if one.method != "GET"]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a request, or a watch that begins or ends, made `condition` true."""
        while not condition():
            self._news.clear()
            await self._news.wait()

    def _notice(self) -> None:
        self._news.set()

    def _tell(self, kind: Kind, change: str, body: Object) -> None:
        for queue in self._watchers[kind.plural]:
            queue.put_nowait({"type": change, "object": body})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        body = await request.json() if request.can_read_body else None
        made = Request(request.method, request.path, dict(request.query), token, body, request.content_type)
        self.requests.append(made)
        self._notice()
        if self.token is not None and token != self.token:
            return _status(401, "Unauthorized")
        found = self._discovery(request.path)
        if found is not None:
            return web.json_response(found)
        parts = request.path.strip("/").split("/")
        namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else ""
        kind = next((one for one in self.served if one.plural in parts), None)
        if kind is None or kind.plural in self.undefined:
            return _status(404, "NotFound")
        if f"{namespace}/{kind.plural}" in self.refused:
            return _status(403, "Forbidden")
        if request.method != "GET" or parts[-1] != kind.plural:
            return web.json_response(self.objects[kind.plural].get((namespace, parts[-1]), body))
        if "watch" in request.query:
            return await self._watch(request, kind, namespace)
        items = [one for (where, _), one in self.objects[kind.plural].items() if namespace in ("", where)]
        return web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": items})

    async def _watch(self, request: web.Request, kind: Kind, namespace: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        queue: asyncio.Queue[Object | None] = asyncio.Queue()
        self._watchers[kind.plural].add(queue)
        self._notice()
        try:
            while (event := await queue.get()) is not None:
                metadata = event["object"].get("metadata", {})
                if namespace in ("", metadata.get("namespace", namespace)):
                    await response.write(json.dumps(event).encode() + b"\n")
                if event["type"] == "ERROR":
                    break
        except ConnectionError:
            pass  # whoever watched has gone
        finally:
            self._watchers[kind.plural].discard(queue)
            self._notice()
        return response

    def _discovery(self, path: str) -> Object | None:
        if path == "/api":
            return {"versions": ["v1"]}
        if path == "/apis":
            groups = sorted({(one.group, one.version) for one in self.served if one.group})
            return {
                "groups": [
                    {"name": group, "versions": [{"version": version, "groupVersion": f"{group}/{version}"}],
                     "preferredVersion": {"version": version}}
                    for group, version in groups
                ]
            }  # fmt: skip
        path_of = path.strip("/")
        served = [one for one in self.served if path_of in (f"api/{one.api_version}", f"apis/{one.api_version}")]
        if not served:
            return None
        extra = [_NAMESPACE, _EVENT] if path == "/api/v1" else []
        return {
            "resources": [
                {"name": one.plural, "singularName": one.kind.lower(), "kind": one.kind,
                 "namespaced": one is not _NAMESPACE, "verbs": ["create", "get", "list", "watch", "patch"]}
                for one in [*served, *extra]
                if one.plural not in self.undefined
            ]
        }  # fmt: skip


def _status(code: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": reason}, status=code)
