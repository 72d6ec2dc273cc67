"""What kopf calls: the settings that it runs with, how it logs in, and what it does with an event.

The handlers are few because a pass is not theirs: an event says that an object is to be looked at, the queue does so
when it is due, and what was missed is listed (docs/adr/0008-operator.md has the table of what is kopf's and what is
not). So there is no `kopf.on.create`, `update`, `delete` or `field`, no timer, no daemon and no index here: each would
write finalizers or annotations to objects, or keep a task an object for ever.

A kopf operator runs for each scope (`runtime.kopf_watch`), all with this registry; what differs is in the memo. kopf
serves the kinds that are defined when it starts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

import kopf

from muster_operator import naming
from muster_operator.kube.kinds import WATCHED, Kind, kind_of, selector_for, selector_text
from muster_operator.kube.login import Login

Untyped = Any
Observe = Callable[[Kind, str | None, Untyped], None]
"""(kind, ADDED, MODIFIED, DELETED or None for the first list, object)."""
WATCH_SERVER_TIMEOUT_S: Final = 300
"""A watch is asked for anew so often, should its end ever go unnoticed."""
RECONNECT_BACKOFF_S: Final = 1.0
ERROR_BACKOFFS_S: Final = (1.0, 1.0, 2.0, 3.0, 5.0)
"""Between attempts of one request of kopf's, also of one that is refused; then its watch ends and our lists, with their
back-off, tell when there is something to watch again."""

registry: Final = kopf.OperatorRegistry()
"""Ours, not kopf's global one: importing this module registers nothing with anybody else."""


@dataclass(frozen=True, slots=True)
class Memo:
    """What the handlers of one scope are given."""

    observe: Observe
    login: Login

    def __copy__(self) -> Self:
        return self  # kopf keeps a copy for each object


@kopf.on.startup(registry=registry)
async def configure(settings: kopf.OperatorSettings, **_: Untyped) -> None:
    """Watching only: nothing that writes, nothing that reads more than our own kinds and what carries our labels.

    Scanning would watch definitions and namespaces, which are rights on the whole cluster that a Role cannot give.
    """
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.networking.error_backoffs = ERROR_BACKOFFS_S
    settings.watching.server_timeout = WATCH_SERVER_TIMEOUT_S
    settings.watching.reconnect_backoff = RECONNECT_BACKOFF_S
    for kind in WATCHED:
        selector = selector_for(kind)
        if selector:
            settings.watching.label_selectors[kind.group, kind.version, kind.plural] = selector_text(selector)


@kopf.on.login(registry=registry)
def login(memo: Memo, **_: Untyped) -> kopf.ConnectionInfo:
    """At the start, and again when the API server answers 401. Blocks, so kopf runs it on a thread."""
    return memo.login.connection(anew=True)


@kopf.on.event(naming.GROUP, naming.VERSION, "coordinatorclusters", registry=registry)
@kopf.on.event(naming.GROUP, naming.VERSION, "consumergroups", registry=registry)
@kopf.on.event("apps", "v1", "statefulsets", registry=registry)
@kopf.on.event("", "v1", "services", registry=registry)
@kopf.on.event("", "v1", "configmaps", registry=registry)
@kopf.on.event("", "v1", "serviceaccounts", registry=registry)
@kopf.on.event("", "v1", "pods", registry=registry)
@kopf.on.event("policy", "v1", "poddisruptionbudgets", registry=registry)
@kopf.on.event("networking.k8s.io", "v1", "networkpolicies", registry=registry)
async def seen(event: Untyped, resource: kopf.Resource, memo: Memo, **_: Untyped) -> None:
    """An object of the first list, or one that changed: into the cache and, by its owner's key, into the queue."""
    api_version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    kind = kind_of(api_version, str(resource.kind))
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **event["object"]}
    memo.observe(kind, event["type"], body)
