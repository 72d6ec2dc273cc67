"""The operator's login to the API server, the same for kopf's watches and for our own requests.

In a pod it is kopf's own `login_with_service_account`, which reads the projected token at each call; only the address
is taken from the environment variables that Kubernetes sets in every container, as client-go does, instead of a DNS
name: an operator that needs the cluster's DNS to reach the API server could not help while the DNS is down. With a
kubeconfig it is the official client's loader, since kopf's takes no path and runs no exec plug-in.

Every function here blocks (files, exec plug-ins) and may be called from any thread.
"""

import dataclasses
import os
import threading
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

import kopf

from muster_operator.errors import Transient

Untyped = Any
"""An object of the kubernetes package, which is imported for a kubeconfig only."""


class Login:
    """`connection` returns the API server's address and the current credentials."""

    def __init__(self, kubeconfig: str | None = None, context: str | None = None) -> None:
        """`kubeconfig` None: the pod's own service account if there is one, else the kubeconfig of `KUBECONFIG`."""
        self._kubeconfig, self._context = kubeconfig, context
        self._lock = threading.Lock()
        self._loaded: Untyped = None

    def connection(self, *, anew: bool = False) -> kopf.ConnectionInfo:
        """`anew`: the credentials returned before were refused. Raises Transient."""
        try:
            with self._lock:
                found = in_pod() if self._kubeconfig is None else None
                return found or self._from_kubeconfig(anew)
        except Exception as error:  # files, YAML, exec plug-ins: each raises its own exceptions
            raise Transient("NotLoggedIn", f"no credentials for the API server ({type(error).__name__})") from error

    def _from_kubeconfig(self, anew: bool) -> kopf.ConnectionInfo:
        if self._loaded is None or anew:
            self._loaded = _load(self._kubeconfig, self._context)
        found = self._loaded
        header = found.get_api_key_with_prefix("BearerToken") or found.get_api_key_with_prefix("authorization") or ""
        scheme, _, token = str(header).rpartition(" ")  # reading the header runs the hook that renews an expired token
        return kopf.ConnectionInfo(
            server=found.host,
            ca_path=found.ssl_ca_cert,
            insecure=not found.verify_ssl,
            certificate_path=found.cert_file,
            private_key_path=found.key_file,
            username=found.username or None,
            password=found.password or None,
            scheme=scheme or None,
            token=token or None,
            proxy_url=None if _is_direct(found) else found.proxy,
        )


def in_pod() -> kopf.ConnectionInfo | None:
    """Login by the pod's service account; None if there is none."""
    found = kopf.login_with_service_account(settings=kopf.OperatorSettings())
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if found is None or not host or not port:
        return found
    return dataclasses.replace(found, server=f"https://{f'[{host}]' if ':' in host else host}:{port}")


def _is_direct(found: Untyped) -> bool:
    """`NO_PROXY` names the API server's host."""
    return bool(proxy_bypass(urlsplit(found.host).netloc.rpartition("@")[2]))


def _load(kubeconfig: str | None, context: str | None) -> Untyped:
    import kubernetes

    found = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(config_file=kubeconfig, context=context, client_configuration=found)
    return found
