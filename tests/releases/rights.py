"""Users with SCRAM credentials, ACLs and quotas: what an administrator was told that the cluster keeps."""

from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.cluster import wait_until
from tests.integration.second_client import SecondClient
from tests.releases import records

if TYPE_CHECKING:
    from tests.releases.life import Life

ITERATIONS = 4096
MECHANISMS = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
EVERY_ACL = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
WAIT_S = 30


def live(life: "Life", stage: int) -> None:
    """A user with rights and a quota at each stage; the one of the stage before loses all but his second credential."""
    known = life.known.setdefault("rights", {"users": {}, "acls": [], "quotas": {}})
    name = f"user-{stage} ü"
    for mechanism in MECHANISMS:
        upsertion = UserScramCredentialUpsertion(
            name, ScramCredentialInfo(mechanism, ITERATIONS), f"canary-{stage}".encode()
        )
        _altered(life.admin, upsertion)
    known["users"][name] = sorted(str(one.name) for one in MECHANISMS)
    for binding in _bindings(name):
        life.admin.create_acls([binding])[binding].result(WAIT_S)
        known["acls"].append(_said(binding))
    quotas = {key: float(1_000_000 + n + stage) for n, key in enumerate(QUOTAS)}
    _alter_quotas(life.bootstrap, name, quotas, remove=False)
    known["quotas"][name] = quotas
    if stage > 0:
        before = f"user-{stage - 1} ü"
        _altered(life.admin, UserScramCredentialDeletion(before, MECHANISMS[0]))
        known["users"][before] = [str(MECHANISMS[1].name)]
        for binding in _bindings(before):
            one = AclBindingFilter(*_fields(binding))
            assert len(life.admin.delete_acls([one])[one].result(WAIT_S)) == 1
            known["acls"].remove(_said(binding))
        _alter_quotas(life.bootstrap, before, known["quotas"].pop(before), remove=True)
    known["acls"].sort()
    wait_until("every replica has the quotas", lambda: _quotas(life.bootstrap) == known["quotas"], WAIT_S)


def check(bootstrap: str, admin: AdminClient, known: dict[str, Any]) -> None:
    told = admin.describe_user_scram_credentials().result(WAIT_S)
    users = {
        user: sorted(str(info.mechanism.name) for info in one.scram_credential_infos) for user, one in told.items()
    }
    assert users == known["users"]
    assert sorted(_said(one) for one in admin.describe_acls(EVERY_ACL).result(WAIT_S)) == known["acls"]
    assert _quotas(bootstrap) == known["quotas"]


def _altered(admin: AdminClient, alteration: Any) -> None:
    for future in admin.alter_user_scram_credentials([alteration]).values():
        future.result(WAIT_S)


def _bindings(user: str) -> list[AclBinding]:
    who = f"User:{user}"
    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    allow, deny = AclPermissionType.ALLOW, AclPermissionType.DENY
    return [
        AclBinding(ResourceType.TOPIC, "events", literal, who, "*", AclOperation.READ, allow),
        AclBinding(ResourceType.GROUP, f"of-{user}", prefixed, who, "10.1.2.3", AclOperation.ALL, deny),
        AclBinding(ResourceType.TRANSACTIONAL_ID, "*", literal, who, "*", AclOperation.WRITE, allow),
    ]


def _fields(one: AclBinding) -> list[Any]:
    return [
        one.restype, one.name, one.resource_pattern_type, one.principal, one.host, one.operation, one.permission_type,
    ]  # fmt: skip


def _said(one: AclBinding) -> str:
    return " ".join(str(getattr(field, "name", field)) for field in _fields(one))


def _alter_quotas(bootstrap: str, user: str, quotas: dict[str, float], *, remove: bool) -> None:
    entity = [{"entity_type": "user", "entity_name": user}]
    ops = [{"key": key, "value": value, "remove": remove} for key, value in quotas.items()]
    client = SecondClient(records.ports(bootstrap)[0])
    try:
        answer = client.ask("AlterClientQuotas", 1, entries=[{"entity": entity, "ops": ops}], validate_only=False)
    finally:
        client.close()
    assert [entry.error_code for entry in answer.entries] == [0], answer


def _quotas(bootstrap: str) -> dict[str, dict[str, float]] | None:
    """User → quotas, as every replica tells them; None while they differ."""
    every = [{"entity_type": "user", "match_type": 2, "match": None}]
    told = []
    for port in records.ports(bootstrap):
        client = SecondClient(port)
        try:
            answer = client.ask("DescribeClientQuotas", 1, components=every, strict=False)
        finally:
            client.close()
        assert answer.error_code == 0, answer
        told.append(
            {entry.entity[0].entity_name: {v.key: float(v.value) for v in entry.values} for entry in answer.entries}
        )
    return told[0] if all(one == told[0] for one in told) else None
