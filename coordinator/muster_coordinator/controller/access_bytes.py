"""Bytes of ACLs and quotas, in commands and checkpoints of the controller.

What it does not do: versions and kinds (`codec`, `checkpoint`), or what makes an ACL or a quota valid (`access`).
"""

import math
import struct
from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType

from muster_coordinator.controller.commands import AddAcls, AlterQuotas, QuotaChange, RemoveAcls
from muster_coordinator.controller.packing import Packer, Unpacker
from muster_coordinator.errors import Corruption
from muster_coordinator.security.acl import Acl
from muster_coordinator.security.quota_entities import QuotaEntity

_F64 = struct.Struct(">d")
_I64 = struct.Struct(">q")


def put_access(p: Packer, command: AddAcls | RemoveAcls | AlterQuotas) -> None:
    if isinstance(command, AlterQuotas):
        p.many(command.changes, lambda change: _put_change(p, change))
    else:
        put_acls(p, command.acls)


def put_acls(p: Packer, acls: Iterable[Acl]) -> None:
    p.many(acls, lambda acl: _put_acl(p, acl))


def take_acls(u: Unpacker) -> tuple[Acl, ...]:
    return u.many(lambda: Acl(u.u8(), u.text(), u.u8(), u.text(), u.text(), u.u8(), u.u8()))


def take_ordered_acls(u: Unpacker) -> frozenset[Acl]:
    """Of a checkpoint, where they are ascending. Raises `Corruption`: another order is a second spelling."""
    acls = take_acls(u)
    if any(one >= other for one, other in pairwise(acls)):
        raise Corruption("controller bytes: ACLs out of order")
    return frozenset(acls)


def _put_acl(p: Packer, acl: Acl) -> None:
    p.u8(acl.resource_type)
    p.text(acl.name)
    p.u8(acl.pattern)
    p.text(acl.principal)
    p.text(acl.host)
    p.u8(acl.operation)
    p.u8(acl.permission)


def put_quotas(p: Packer, quotas: Mapping[QuotaEntity, tuple[tuple[str, float], ...]]) -> None:
    p.u32(len(quotas))
    for entity in sorted(quotas):
        _put_entity(p, entity)
        p.u32(len(quotas[entity]))
        for key, value in quotas[entity]:
            p.text(key)
            _put_number(p, value)


def take_quotas(u: Unpacker) -> Mapping[QuotaEntity, tuple[tuple[str, float], ...]]:
    rows = u.many(lambda: (_take_entity(u), u.many(lambda: (u.text(), _take_number(u)))))
    entities = [entity for entity, _ in rows]
    if entities != sorted(set(entities)):
        raise Corruption("controller bytes: quotas out of order")
    for entity, values in rows:
        if not values or list(values) != sorted(dict(values).items()):
            raise Corruption(f"controller bytes: quotas of {entity} are {values}")
    return MappingProxyType(dict(rows))


def take_quota_changes(u: Unpacker) -> tuple[QuotaChange, ...]:
    return u.many(
        lambda: QuotaChange(entity=_take_entity(u), key=u.text(), value=_take_number(u) if u.flag() else None)
    )


def _put_change(p: Packer, change: QuotaChange) -> None:
    _put_entity(p, change.entity)
    p.text(change.key)
    p.u8(change.value is not None)
    if change.value is not None:
        _put_number(p, change.value)


def _put_entity(p: Packer, entity: QuotaEntity) -> None:
    p.u32(len(entity))
    for kind, name in entity:
        p.text(kind)
        p.text(name)


def _take_entity(u: Unpacker) -> QuotaEntity:
    return u.many(lambda: (u.text(), u.text()))


def _put_number(p: Packer, value: float) -> None:
    p.i64(_I64.unpack(_F64.pack(value))[0])


def _take_number(u: Unpacker) -> float:
    value: float = _F64.unpack(_I64.pack(u.i64()))[0]
    if not math.isfinite(value):
        raise Corruption("controller bytes: a quota is no number")
    return value
