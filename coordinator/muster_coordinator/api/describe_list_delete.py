"""DescribeGroups, ListGroups, DeleteGroups: the administrator's view of groups (protocol notes 3.13)."""

from collections.abc import Callable

from muster_coordinator.api.authorize import CLUSTER, Operation, Resource, ResourceType
from muster_coordinator.api.cluster_view import offsets_partition
from muster_coordinator.api.gather import Gather, gather_few
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import (
    DeleteGroup,
    DeleteGroupAnswer,
    DescribeGroup,
    DescribeGroupAnswer,
    GroupAnswer,
    ListGroups,
    ListGroupsAnswer,
)
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_UNKNOWN_IS_ERROR_SINCE = 6
_DEAD = "Dead"


class DescribeListDelete:
    """Handlers of DescribeGroups, ListGroups and DeleteGroups."""

    def __init__(self, services: Services) -> None:
        self._services = services

    # -- DescribeGroups

    def describe(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """DescribeGroups v0-6: each group by itself, and once; an unknown one is Dead, from v6 on error 69."""
        names, operations = tuple(dict.fromkeys(request.groups)), request.include_authorized_operations

        def begin(index: int, arrived: Callable[[Value], None]) -> None:
            self._describe(context, version, names[index], operations, arrived)

        loop = self._services.surface.loop
        gather_few(loop, len(names), begin, lambda groups: reply({"groups": groups}))

    def _describe(
        self, context: RequestContext, version: int, group: str, operations: bool, done: Callable[[Value], None]
    ) -> None:
        services = self._services
        if not services.may_group(context, Operation.DESCRIBE, group):
            done(_undescribed(group, Code.GROUP_AUTHORIZATION_FAILED))
            return
        image = services.surface.image()
        if image is None:
            done(_undescribed(group, Code.COORDINATOR_NOT_AVAILABLE))
            return

        def answered(answer: GroupAnswer) -> None:
            assert isinstance(answer, DescribeGroupAnswer)
            described = _described(answer, version)
            if operations and not described["error_code"]:
                resource = Resource(ResourceType.GROUP, group)
                described["authorized_operations"] = services.operations(context, resource)
            done(described)

        services.surface.group_request(offsets_partition(image, group), DescribeGroup(group), context, answered)

    # -- ListGroups

    def list(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """ListGroups v0-5: the groups of every offsets partition led here. If leadership of one was lost meanwhile, its
        groups may be in no broker's list: error 15 makes clients ask all brokers again."""
        services = self._services
        sees_all = services.would_allow(context, Operation.DESCRIBE, CLUSTER)
        filters = ListGroups(
            tuple(state.lower() for state in request.states_filter), tuple(t.lower() for t in request.types_filter)
        )
        led = services.surface.offsets_led()

        def answered(answers: list[GroupAnswer]) -> None:
            error, groups = Code.NONE, []
            for answer in answers:
                assert isinstance(answer, ListGroupsAnswer)
                if answer.error != Code.NONE:
                    moved = answer.error == Code.NOT_COORDINATOR
                    error = Code.COORDINATOR_NOT_AVAILABLE if moved else Code(answer.error)
                for one in answer.groups:
                    if sees_all or services.may_group(context, Operation.DESCRIBE, one.group):
                        groups.append(
                            {
                                "group_id": one.group,
                                "protocol_type": one.protocol_type,
                                "group_state": one.state,
                                "group_type": one.type,
                            }
                        )
            reply({"error_code": error, "groups": groups})

        gather: Gather[GroupAnswer] = Gather(len(led), answered)
        for index, partition in enumerate(led):
            services.surface.group_request(partition, filters, context, gather.part(index))

    # -- DeleteGroups

    def delete(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """DeleteGroups v0-2."""
        names = tuple(dict.fromkeys(request.groups_names))

        def answered(codes: list[int]) -> None:
            results = [{"group_id": name, "error_code": code} for name, code in zip(names, codes, strict=True)]
            reply({"results": results})

        loop = self._services.surface.loop
        gather_few(loop, len(names), lambda index, arrived: self._delete(context, names[index], arrived), answered)

    def _delete(self, context: RequestContext, group: str, done: Callable[[int], None]) -> None:
        services = self._services
        if not services.may_group(context, Operation.DELETE, group):
            done(Code.GROUP_AUTHORIZATION_FAILED)
            return
        image = services.surface.image()
        if image is None:
            done(Code.COORDINATOR_NOT_AVAILABLE)
            return

        def answered(answer: GroupAnswer) -> None:
            assert isinstance(answer, DeleteGroupAnswer)
            done(answer.error)

        services.surface.group_request(offsets_partition(image, group), DeleteGroup(group), context, answered)


def _undescribed(group: str, code: int, message: str | None = None) -> dict[str, Value]:
    return {
        "error_code": code,
        "error_message": message,
        "group_id": group,
        "group_state": _DEAD if code == Code.GROUP_ID_NOT_FOUND else "",
        "protocol_type": "",
        "protocol_data": "",
        "members": (),
    }


def _described(answer: DescribeGroupAnswer, version: int) -> dict[str, Value]:
    if answer.error:
        return _undescribed(answer.group, answer.error)
    if not answer.known and version >= _UNKNOWN_IS_ERROR_SINCE:
        return _undescribed(answer.group, Code.GROUP_ID_NOT_FOUND, f"group {answer.group} not found")
    return {
        "error_code": Code.NONE,
        "error_message": None,
        "group_id": answer.group,
        "group_state": answer.state,
        "protocol_type": answer.protocol_type,
        "protocol_data": answer.protocol,
        "members": [
            {
                "member_id": m.member,
                "group_instance_id": m.instance,
                "client_id": m.client_id,
                "client_host": m.client_host,
                "member_metadata": m.metadata,
                "member_assignment": m.assignment,
            }
            for m in answer.members
        ],
    }
