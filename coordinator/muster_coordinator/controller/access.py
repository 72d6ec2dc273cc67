"""ACLs and quotas in the image: what the commands AddAcls, RemoveAcls and AlterQuotas do (ADR 53, 54). Pure.

Adding what is there and removing what is gone change nothing, so a command that is sent again does no harm. What a
command says is checked again here, as its proposer may be another binary; one that is not valid changes nothing at all.
"""

from dataclasses import replace
from types import MappingProxyType

from muster_coordinator.controller.commands import AddAcls, AlterQuotas, RemoveAcls
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.misfit import MisfitError, require
from muster_coordinator.errors import Code
from muster_coordinator.security.acl import acl_error
from muster_coordinator.security.limits import ACLS_MAX, ACLS_OF_A_COMMAND_MAX, QUOTA_ENTITIES_MAX
from muster_coordinator.security.quota_entities import changed, entity_error, quota_error


def alter_access(cluster: ClusterImage, command: AddAcls | RemoveAcls | AlterQuotas) -> ClusterImage:
    """The image after the command; the same object if it changes nothing. Raises `MisfitError`."""
    match command:
        case AddAcls():
            return _add(cluster, command)
        case RemoveAcls():
            left = cluster.acls.difference(command.acls)
            return cluster if len(left) == len(cluster.acls) else replace(cluster, acls=left)
        case AlterQuotas():
            return _alter_quotas(cluster, command)


def _add(cluster: ClusterImage, command: AddAcls) -> ClusterImage:
    many = f"at most {ACLS_OF_A_COMMAND_MAX} ACLs are added at once"
    require(len(command.acls) <= ACLS_OF_A_COMMAND_MAX, Code.INVALID_REQUEST, many)
    for acl in command.acls:
        error = acl_error(acl)
        if error is not None:
            raise MisfitError(Code.INVALID_REQUEST, error)
    after = cluster.acls.union(command.acls)
    require(len(after) <= ACLS_MAX, Code.POLICY_VIOLATION, f"a cluster has at most {ACLS_MAX} ACLs")
    return cluster if len(after) == len(cluster.acls) else replace(cluster, acls=after)


def _alter_quotas(cluster: ClusterImage, command: AlterQuotas) -> ClusterImage:
    many = f"at most {ACLS_OF_A_COMMAND_MAX} quotas are changed at once"
    require(len(command.changes) <= ACLS_OF_A_COMMAND_MAX, Code.INVALID_REQUEST, many)
    after = dict(cluster.quotas)
    for change in command.changes:
        error = entity_error(change.entity) or quota_error(change.entity, change.key, change.value)
        if error is not None:
            raise MisfitError(Code.INVALID_REQUEST, error)
        after = changed(after, change.entity, change.key, change.value)
    most = f"at most {QUOTA_ENTITIES_MAX} users and client ids have quotas"
    require(len(after) <= QUOTA_ENTITIES_MAX, Code.POLICY_VIOLATION, most)
    return cluster if after == cluster.quotas else replace(cluster, quotas=MappingProxyType(after))
