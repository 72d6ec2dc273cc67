"""Pods through the caller's kubeconfig: lists, logs, and commands in a container.

A command runs by the API server's exec, as with `kubectl exec`, and needs the same right (`create` on pods/exec).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream
from urllib3.exceptions import HTTPError
from websocket import WebSocketException

from muster_operator.plugin.objects import TIMEOUT_S, Trouble, ask

EXEC_TIMEOUT_S = 120.0
OUTPUT_BYTES_MAX = 16 * 1024 * 1024
"""Largest output of a command; a table of 100,000 partitions has 8 MiB."""
LINE_CHARS_MAX = 16 * 1024
"""Longer lines of a log are cut into pieces: a log may contain no line end at all."""


class Finished(NamedTuple):
    """Result of a command that ran to its end."""

    code: int
    out: str
    err: str


class Pods:
    """The pods of one namespace."""

    def __init__(self, namespace: str) -> None:
        self._api = client.CoreV1Api()
        self.namespace = namespace

    def list(self, selector: str) -> Sequence[Mapping[str, Any]]:
        """Pods by name, as the API server returns them."""
        found = items(self._api.list_namespaced_pod, "pods", namespace=self.namespace, label_selector=selector)
        return sorted(found, key=lambda one: _order(one["metadata"]["name"]))

    def log_lines(self, pod: str, container: str, **options: Any) -> Iterator[str]:  # noqa: ANN401
        """Lines without their ends; options as for `read_namespaced_pod_log`. Raises Trouble."""
        subject = f"log of {pod}/{container}"
        patience = None if options.get("follow") else TIMEOUT_S
        answer = ask(
            self._api.read_namespaced_pod_log, subject, name=pod, namespace=self.namespace, container=container,
            _preload_content=False, _request_timeout=patience, **options,
        )  # fmt: skip
        try:
            yield from _lines(answer.stream(LINE_CHARS_MAX, decode_content=True))
        except (OSError, HTTPError) as error:
            raise Trouble(f"{subject}: the API server ended it: {error}") from error
        finally:
            answer.release_conn()

    def run(self, pod: str, container: str, argv: Sequence[str], timeout_s: float = EXEC_TIMEOUT_S) -> Finished:
        """Run `argv` in a container and wait for its end. Raises Trouble if its result is unknown."""
        subject = f"a command in {pod}"
        try:
            link = stream(
                self._api.connect_get_namespaced_pod_exec, pod, self.namespace, container=container,
                command=list(argv), stdin=False, stdout=True, stderr=True, tty=False,
                _preload_content=False, _request_timeout=timeout_s, binary=True,
            )  # fmt: skip
        except ApiException as error:
            raise Trouble(f"{subject}: {_refusal(error)}") from error
        except (OSError, WebSocketException) as error:
            raise Trouble(f"{subject}: {error}") from error
        try:
            link.run_forever(timeout=timeout_s)
            if link.is_open():
                raise Trouble(f"{subject} has not ended after {timeout_s:.0f} s; its result is unknown")
            out, err = (
                (read(timeout=0) or b"").decode(errors="replace") for read in (link.read_stdout, link.read_stderr)
            )
            code = link.returncode
        except (OSError, WebSocketException, ValueError, KeyError, TypeError) as error:
            raise Trouble(f"{subject} was cut off; its result is unknown ({error})") from error
        finally:
            link.close()
            link.sock.shutdown()  # `close` leaves the socket open if the other side closed first
        if code is None:
            raise Trouble(f"{subject} was cut off; its result is unknown")
        if len(out) > OUTPUT_BYTES_MAX:
            raise Trouble(f"{subject} printed more than {OUTPUT_BYTES_MAX} characters")
        return Finished(int(code), out, err)

    def probe_page(self, pod: str, port: int, path: str) -> str:
        """A page of a pod's own HTTP port, through the API server (`get` on pods/proxy). Raises Trouble."""
        answer = ask(
            self._api.connect_get_namespaced_pod_proxy_with_path, f"{path} of {pod}", name=f"{pod}:{port}",
            namespace=self.namespace, path=path, _preload_content=False,
        )  # fmt: skip
        data: bytes = answer.read(OUTPUT_BYTES_MAX)
        answer.release_conn()
        return data.decode(errors="replace")


def items(call: Callable[..., Any], subject: str, **arguments: Any) -> list[Mapping[str, Any]]:  # noqa: ANN401
    """The items of a list as the API server returns them: the client's own models reject unknown values. Raises
    Trouble."""
    answer = ask(call, subject, _preload_content=False, **arguments)
    found: list[Mapping[str, Any]] = json.loads(answer.data)["items"]
    return found


def containers(pod: Mapping[str, Any]) -> list[str]:
    """Names of its containers, in the order of their start."""
    spec = pod.get("spec") or {}
    return [one["name"] for part in ("initContainers", "containers") for one in spec.get(part) or ()]


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Ready, and not terminating."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _refusal(error: ApiException) -> str:
    """The first part of a refused handshake's message: headers and a body follow."""
    return str(error.reason or error.status).partition("-+-+-")[0].strip()[:500]


def _order(name: str) -> tuple[str, int, str]:
    """Sort key that puts web-2 before web-10."""
    head, _, tail = name.rpartition("-")
    return (head, int(tail), "") if tail.isdigit() and head else (name, 0, "")


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace").removesuffix("\r")
        while len(rest) > LINE_CHARS_MAX:
            yield rest[:LINE_CHARS_MAX].decode(errors="replace")
            rest = rest[LINE_CHARS_MAX:]
    if rest:
        yield rest.decode(errors="replace")
