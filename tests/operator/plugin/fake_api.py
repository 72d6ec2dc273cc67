"""The API server's paths that the plug-in uses, over HTTP: objects, scale, pods, logs, exec, the pod proxy.

Exec is by WebSocket. The client is the real one; what stands here is only what it talks to.
"""

import base64
import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

SHOP = "/apis/muster.dev/v1alpha1/namespaces/shop"
GROUPS, CLUSTERS = f"{SHOP}/consumergroups", f"{SHOP}/coordinatorclusters"
CORE = "/api/v1/namespaces/shop"
PODS = f"{CORE}/pods"
_WEBSOCKET_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
OUT, ERR, END = 1, 2, 3


def said(kind: str, status: str, reason: str = "Because", message: str = "") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def group(name: str = "orders", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "shop", "annotations": {}, "generation": 1},
        "spec": {
            "clusterRef": {"name": "main"}, "groupId": "orders-v2", "topics": ["orders"], "replicas": 3,
            "template": {"image": "x"},
        },
        "status": status,
    }  # fmt: skip


def cluster(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "main", "namespace": "shop", "annotations": {}, "generation": 1},
        "spec": {"replicas": 3},
        "status": status,
    }


def pod(
    name: str, *, component: str, instance: str, ready: bool = True, restarts: int = 0, **spec: Any
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {
                "app.kubernetes.io/name": "muster",
                "app.kubernetes.io/component": component,
                "app.kubernetes.io/instance": instance,
            },
        },
        "spec": {"containers": [{"name": component}], **spec},
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"name": component, "restartCount": restarts}],
        },
    }


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, dict[str, Any]] = {}
        """Path of one object → it; lists are made of these."""
        self.texts: dict[str, str] = {}
        """Path → plain text: logs (`…/log?container=…` by path and container) and proxied pages."""
        self.starting: set[str] = set()
        """Paths of logs whose container has not started."""
        self.patches: list[tuple[str, Any]] = []
        self.asked: list[str] = []
        """Every path that was asked for, with its query."""
        self.commands: list[list[str]] = []
        """Every command that was to run in a pod, its pod first."""
        self.forbidden: set[str] = set()
        """Paths that answer 403."""
        self.operator: Callable[[dict[str, Any]], None] = lambda _: None
        """What the operator does to an object that was changed."""
        self.answers: Callable[[list[str]], tuple[int | str, str, str]] = lambda _: (0, "", "")
        """Command → exit code ("cut": the connection breaks), standard output, standard error."""

    def put(self, path: str, obj: dict[str, Any]) -> None:
        self.objects[f"{path}/{obj['metadata']['name']}"] = obj


class Handler(BaseHTTPRequestHandler):
    server: Server

    def _send(self, code: int, body: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, code: int, body: Any) -> None:
        self._send(code, json.dumps(body).encode(), "application/json")

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        parts = urlsplit(self.path)
        path, query = unquote(parts.path), parse_qs(parts.query)
        if path in self.server.forbidden:
            self._answer(403, {"reason": "Forbidden"})
        elif path.endswith("/exec"):
            self._exec(path, query)
        elif path.endswith("/log"):
            key = f"{path}/{query['container'][0]}" + (
                "/previous" if query.get("previous", [""])[0].lower() == "true" else ""
            )
            self._text(key)
        elif path in self.server.texts:
            self._text(path)
        elif path in self.server.objects:
            self._answer(200, self.server.objects[path])
        elif path.count("/") in (5, 6) and path.split("/")[-2] == "shop":
            self._answer(200, {"items": list(self._listed(path, query))})
        else:
            self._answer(404, {"reason": "NotFound"})

    def _text(self, key: str) -> None:
        if key in self.server.starting:
            self._answer(400, {"reason": "BadRequest", "message": f"container of {key} is waiting to start"})
        elif key in self.server.texts:
            self._send(200, self.server.texts[key].encode(), "text/plain")
        else:
            self._answer(404, {"reason": "NotFound"})

    def _listed(self, path: str, query: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
        pairs = [one.split("=") for one in ",".join(query.get("labelSelector", [])).split(",") if one]
        for key, one in self.server.objects.items():
            labels = one["metadata"].get("labels", {})
            if key.rpartition("/")[0] == path and all(labels.get(label) == value for label, value in pairs):
                yield one

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        self.server.patches.append((path, body))
        obj = self.server.objects[path.removesuffix("/scale")]
        for name, value in (body.get("metadata") or {}).get("annotations", {}).items():
            if value is None:
                obj["metadata"]["annotations"].pop(name, None)
            else:
                obj["metadata"]["annotations"][name] = value
        if body.get("spec"):
            obj["spec"].update(body["spec"])
            obj["metadata"]["generation"] += 1
        self.server.operator(obj)
        self._answer(200, obj)

    def _exec(self, path: str, query: dict[str, list[str]]) -> None:
        command = query["command"]
        self.server.commands.append([path.split("/")[-2], *command])
        code, out, err = self.server.answers(command)
        key = self.headers["Sec-WebSocket-Key"] + _WEBSOCKET_GUID
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
        self.end_headers()
        data = out.encode()
        for start in range(0, len(data), 7):  # in small pieces: characters are cut in two
            self._frame(OUT, data[start : start + 7])
        self._frame(ERR, err.encode())
        self.close_connection = True
        if code == "cut":
            return
        causes = {"details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}
        end = {"status": "Success"} if code == 0 else {"status": "Failure", **causes}
        self._frame(END, json.dumps(end).encode())
        self.wfile.write(b"\x88\x02\x03\xe8")

    def _frame(self, channel: int, data: bytes) -> None:
        payload = bytes([channel]) + data
        length = bytes([len(payload)]) if len(payload) < 126 else b"\x7e" + struct.pack(">H", len(payload))
        self.wfile.write(b"\x82" + length + payload)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        return None
