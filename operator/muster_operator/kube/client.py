"""HTTP to the API server: the official `kubernetes` client in a bounded thread pool, every call with a time-out.

The official client brings what is hard to get right (kubeconfig, in-cluster credentials and their rotation, TLS); its
generated models are not used, objects are plain dictionaries. It blocks, so calls run on `KUBE_THREADS` threads of
their own.

It repeats a call once when the connection could not be made or, for reads, broke: kept-alive connections go stale.
Anything
else is the caller's decision.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import kubernetes
import urllib3

from muster_operator.errors import Transient
from muster_operator.kube.answers import Answer, decode
from muster_operator.limits import KUBE_CONNECT_TIMEOUT_S, KUBE_READ_TIMEOUT_S, KUBE_THREADS
from muster_operator.ports import Clock

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json"
_IN_CLUSTER_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

Untyped = Any
"""An object of the kubernetes package, whose models we do not use."""

Observer = Callable[[str, str, int, float], None]
"""(verb, kind, status or 0, seconds) of every call: metrics."""


def configuration(kubeconfig: str | None = None, context: str | None = None) -> Untyped:
    """Credentials: the pod's own when there are any and no kubeconfig is named, else the kubeconfig (`KUBECONFIG`)."""
    found = kubernetes.client.Configuration()
    if kubeconfig is None and _IN_CLUSTER_TOKEN.exists():
        kubernetes.config.load_incluster_config(client_configuration=found)
    else:
        kubernetes.config.load_kube_config(config_file=kubeconfig, context=context, client_configuration=found)
    found.connection_pool_maxsize = KUBE_THREADS
    found.retries = urllib3.Retry(
        total=1, redirect=0, status=0, other=0, allowed_methods=frozenset({"GET"}), respect_retry_after_header=False
    )
    return found


class ApiClient:
    """`call` sends one request and answers whatever came back; only silence raises (Transient)."""

    def __init__(self, settings: Untyped, *, clock: Clock, observe: Observer, threads: int = KUBE_THREADS) -> None:
        self._api = kubernetes.client.ApiClient(settings)
        self._api.user_agent = "muster-operator"
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="kube")
        self._clock = clock
        self._observe = observe
        self._lock = threading.Lock()

    async def call(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        kind: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        read_timeout_s: float = KUBE_READ_TIMEOUT_S,
    ) -> Answer:
        """Raises Transient when no answer came: whether a write was carried out is unknown then."""
        url = f"{path}?{urlencode(query)}" if query else path
        started = self._clock.monotonic_ms()
        status = 0
        try:
            answer = await asyncio.get_running_loop().run_in_executor(
                self._pool, self._send, method, url, body, content_type, read_timeout_s
            )
            status = answer.status
        except (urllib3.exceptions.HTTPError, kubernetes.client.ApiException, OSError) as error:
            what = type(error).__name__
            raise Transient("ApiUnreachable", f"{verb} {kind}: no answer from the API server ({what})") from error
        finally:
            self._observe(verb, kind, status, (self._clock.monotonic_ms() - started) / 1_000)
        return answer

    def _send(
        self, method: str, url: str, body: Mapping[str, Any] | None, content_type: str, read_timeout_s: float
    ) -> Answer:
        headers = {"Accept": JSON} | ({"Content-Type": content_type} if body is not None else {})
        with self._lock:  # the hook that renews credentials writes to the shared configuration
            request = self._api.param_serialize(
                method=method, resource_path=url, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
        response = self._api.call_api(*request, _request_timeout=(KUBE_CONNECT_TIMEOUT_S, read_timeout_s))
        data = response.read()
        return decode(response.status, data or b"", response.headers.get("Retry-After"))

    def close(self) -> None:
        """No call may follow; one under way ends at its time-out."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._api.close()
