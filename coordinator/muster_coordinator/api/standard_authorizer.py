"""Authorisation by ACLs (`security.decision`): what `authorizer.class.name` switches on (ADR 53).

They are those of the cluster's image, or of the Kafka beside it, as it told them last (ADR 100).

Mechanism: the index follows the image. When a request finds an image with other ACLs, what was added and removed is
changed in the index before anything is decided. So a change is in force on every connection with the first request
after the image has it, and nothing is remembered between two requests. While there is no image, as when a replica has
just been started, nobody knows what is allowed: Kafka opens its ports later than that, and here only super users are
heard (`knows`), as a denial would be an error that clients do not try again on.

With `report_only` everything is allowed, and what would be denied is told as an event. What this does not do: know who
the client is (`RequestContext.principal` says it).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from muster_coordinator.api.authorize import Operation, Resource, ResourceType
from muster_coordinator.context import RequestContext
from muster_coordinator.events import WOULD_BE_DENIED, Event, Tell, untold
from muster_coordinator.security.acl import Acl
from muster_coordinator.security.acl_index import AclIndex
from muster_coordinator.security.addresses import java_address
from muster_coordinator.security.decision import allows, allows_any_of_type, judge


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerSettings:
    """Keys of Kafka's authorizer."""

    super_users: frozenset[str]
    allow_if_no_acl: bool
    report_only: bool


class Known(Protocol):
    """Who knows ACLs: `controller.image.ClusterImage`, `upstream.acls.KnownAcls`."""

    @property
    def acls(self) -> frozenset[Acl]: ...


class StandardAuthorizer:
    """An `Authorize`; see the module."""

    __slots__ = ("_acls", "_allow_if_no_acl", "_image", "_index", "_report_only", "_super_users", "_tell")

    def __init__(self, image: Callable[[], Known | None], settings: AuthorizerSettings, tell: Tell = untold) -> None:
        """`image`: the latest; None: nobody knows yet."""
        self._image = image
        self._super_users = settings.super_users
        self._allow_if_no_acl = settings.allow_if_no_acl
        self._report_only = settings.report_only
        self._tell = tell
        self._acls: frozenset[Acl] = frozenset()
        self._index = AclIndex()

    def knows(self, context: RequestContext) -> bool:
        """Can a request of this client be judged at all?"""
        return self._image() is not None or self._report_only or context.principal in self._super_users

    def __call__(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        """May this client do that now?"""
        if self.would_allow(context, operation, resource):
            return True
        if not self._report_only:
            return False
        if self._image() is None:
            return True  # What would be denied is not known.
        self._report(context, operation, resource)
        return True

    def quietly(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        """The same for a list of what a client may do, in which a no is nothing to report."""
        return self._report_only or self.would_allow(context, operation, resource)

    def would_allow(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        """What the ACLs say, even if nothing is denied. For a right that another one may stand in for."""
        if context.principal in self._super_users:
            return True
        index = self._current()
        if index is None:
            return False
        rule = judge(index, context.principal, java_address(context.client_host), operation, resource)
        return allows(rule, if_no_acl=self._allow_if_no_acl)

    def would_allow_any(self, context: RequestContext, operation: Operation, kind: ResourceType) -> bool:
        """The same for some resource of the type."""
        if context.principal in self._super_users:
            return True
        index = self._current()
        if index is None:
            return False
        host = java_address(context.client_host)
        return allows_any_of_type(index, context.principal, host, operation, kind, if_no_acl=self._allow_if_no_acl)

    def _current(self) -> AclIndex | None:
        """The index of the present image's ACLs."""
        image = self._image()
        if image is None:
            return None
        acls = image.acls
        if acls is not self._acls:
            self._index.change(acls - self._acls, self._acls - acls)
            self._acls = acls
        return self._index

    def _report(self, context: RequestContext, operation: Operation, resource: Resource) -> None:
        said = {
            "principal": context.principal,
            "peer": java_address(context.client_host),
            "operation": operation.name,
            "resource": f"{resource.type.name}:{resource.name}",
            "api": context.api_key,
        }
        self._tell(Event(WOULD_BE_DENIED, said))
