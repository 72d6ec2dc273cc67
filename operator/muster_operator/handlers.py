"""The handlers that kopf calls: its settings, its login, and the handling of an event.

There are few handlers because kopf runs no passes: an event only says that an object needs a pass, the queue runs the
pass when it is due, and missed events are found by lists (docs/adr/0008-operator.md says which parts are kopf's). So
there is no `kopf.on.create`, `update`, `delete` or `field`, no timer, no daemon and no index here: each of them would
write finalizers or annotations to objects, or keep a task per object for ever.

One kopf operator runs per scope (`runtime.kopf_watch`), all with this registry; the memo holds what differs. kopf
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
"""The API server ends a watch after this time, so that a broken one is replaced even if its end goes unnoticed."""
RECONNECT_BACKOFF_S: Final = 1.0
ERROR_BACKOFFS_S: Final = (1.0, 1.0, 2.0, 3.0, 5.0)
"""Waits between the attempts of one kopf request, refused ones included. After the last, the watch ends, and our own
lists, with their back-off, find out when there is something to watch again."""

registry: Final = kopf.OperatorRegistry()
"""A registry of our own instead of kopf's global one: importing this module registers nothing there."""


@dataclass(frozen=True, slots=True)
class Memo:
    """The arguments of one scope's handlers."""

    observe: Observe
    login: Login

    def __copy__(self) -> Self:
        return self  # kopf makes a copy for each object; all of them must be this one


@kopf.on.startup(registry=registry)
async def configure(settings: kopf.OperatorSettings, **_: Untyped) -> None:
    """Watch only: nothing that writes, and nothing that reads more than our own kinds and objects with our labels.

    Scanning would watch definitions and namespaces, which needs cluster-wide rights that a Role cannot give.
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
    """Called at the start, and again after a 401. It blocks, so kopf runs it on a thread."""
    return memo.login.connection(anew=True)


@kopf.on.event(naming.GROUP, naming.VERSION, "coordinatorclusters", registry=registry)
@kopf.on.event(naming.GROUP, naming.VERSION, "consumergroups", registry=registry)
@kopf.on.event(naming.GROUP, naming.VERSION, "topics", registry=registry)
@kopf.on.event(naming.GROUP, naming.VERSION, "users", registry=registry)
@kopf.on.event("apps", "v1", "statefulsets", registry=registry)
@kopf.on.event("", "v1", "services", registry=registry)
@kopf.on.event("", "v1", "configmaps", registry=registry)
@kopf.on.event("", "v1", "serviceaccounts", registry=registry)
@kopf.on.event("", "v1", "pods", registry=registry)
@kopf.on.event("policy", "v1", "poddisruptionbudgets", registry=registry)
@kopf.on.event("networking.k8s.io", "v1", "networkpolicies", registry=registry)
async def seen(event: Untyped, resource: kopf.Resource, memo: Memo, **_: Untyped) -> None:
    """An object of the first list or a changed one: it goes into the cache, and its owner's key into the queue."""
    api_version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    kind = kind_of(api_version, str(resource.kind))
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **event["object"]}
    memo.observe(kind, event["type"], body)
