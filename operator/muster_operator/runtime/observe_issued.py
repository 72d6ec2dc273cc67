"""Reads the Certificates that cert-manager is asked for, and what it says of them.

They are read by name in each pass, like the Secrets: whoever has no cert-manager has no such kind, and a watch on what
may not be there would be one more thing that fails. A right that is missing says so and stops nothing: the coordinators
go on with the certificate that they have, and everything else of the cluster is looked after as before.

Whether the Secret is there and good is not asked here (`observe_certificates`): that is what the coordinators mount.
"""

from collections.abc import Mapping
from typing import Any

from muster_operator.api.cluster import ClusterSpec
from muster_operator.errors import Refused
from muster_operator.kube.kinds import CERTIFICATE
from muster_operator.kube.views import epoch_ms
from muster_operator.naming import listener_certificate
from muster_operator.ports import Kube
from muster_operator.runtime.keys import OwnerKey
from muster_operator.world.certificates import IssuedView

Object = Mapping[str, Any]
_UNSEEN = "nobody has looked at it: is cert-manager running?"


async def observe_issued(
    key: OwnerKey, spec: ClusterSpec, *, kube: Kube
) -> tuple[dict[tuple[str, str], Object], dict[str, IssuedView]]:
    """The Certificates that are there, by kind and name, and a view for each listener that wants one."""
    found: dict[tuple[str, str], Object] = {}
    views: dict[str, IssuedView] = {}
    for listener in spec.listeners:
        ref = listener.tls.issuer_ref if listener.tls is not None else None
        if ref is None:
            continue
        name, issuer = listener_certificate(key.name, listener.name), f"{ref.kind} {ref.name}"
        try:
            live = await kube.get(
                api_version=CERTIFICATE.api_version, kind=CERTIFICATE.kind, namespace=key.namespace, name=name
            )
        except Refused as refused:
            views[listener.name] = IssuedView(issuer=issuer, says=refused.message)
            continue
        if live is not None:
            found[CERTIFICATE.kind, name] = live
        views[listener.name] = view_of(live, issuer)
    return found, views


def view_of(live: Object | None, issuer: str) -> IssuedView:
    if live is None:
        return IssuedView(issuer=issuer, says="it was not made yet")
    told = {str(one.get("type")): one for one in (live.get("status") or {}).get("conditions") or ()}
    times = [live["metadata"].get("creationTimestamp"), *(one.get("lastTransitionTime") for one in told.values())]
    return IssuedView(
        issuer=issuer, says=_says(told), changed_ms=max((epoch_ms(one) or 0 for one in times), default=0) or None
    )


def _says(told: Mapping[str, Object]) -> str | None:
    """A failure is what `Issuing` tells; `Ready` then only says that there is no Secret."""
    ready, issuing = told.get("Ready"), told.get("Issuing")
    if issuing is not None and issuing.get("status") == "False":
        return _words(issuing)
    if ready is not None and ready.get("status") == "True":
        return None
    one = ready or issuing
    return _UNSEEN if one is None else _words(one)


def _words(condition: Object) -> str:
    return f"{condition.get('reason')}: {condition.get('message')}"
