"""User (`mu`): a user of a Kafka cluster: its credentials, what it may do, how much. Kept as specified from here."""

# ruff: noqa: RUF009  # a field is a call with its shape and text

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from muster_operator.api.client_access import (
    AUTHENTICATION_TEXT,
    SECRET_NAME,
    TLS_TEXT,
    Access,
    Authentication,
    PasswordSecret,
    Tls,
)
from muster_operator.api.fields import Record, spec_field
from muster_operator.api.group import ClusterRef
from muster_operator.api.kafka_object import BOOTSTRAP, CLUSTER_RULES, DELETE, POLICY, fixed
from muster_operator.api.kind import parse_spec
from muster_operator.api.schema import Integer, ListOf, Rule, Text, choice
from muster_operator.api.security import OAUTHBEARER, SCRAM
from muster_operator.api.status import CONDITIONS, LONG, WORD

Json = Mapping[str, Any]
ACLS_MAX: Final = 100
OPERATIONS: Final = (
    "All", "Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "DescribeConfigs",
    "AlterConfigs", "IdempotentWrite",
)  # fmt: skip
"""Kafka's operations, as its tools write them."""
CLUSTER_RESOURCE: Final = "kafka-cluster"
RECORDED_ACLS_MAX: Final = 2 * ACLS_MAX * len(OPERATIONS)
_USER_NAME: Final = Text(
    max_length=255, min_length=1, pattern=r"^[^\s,=\"\\](.*[^\s\"\\])?$", pattern_text="must be one line of text"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAuthentication:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.passwordSecret) || self.type.startsWith('scram')",
            message="`passwordSecret` may only be set with SCRAM: users of other types have no password",
            holds=lambda one: one.password_secret is None or one.type in SCRAM,
        ),
    )

    type: str = spec_field(
        choice("scram-sha-512", "scram-sha-256", "tls", OAUTHBEARER),
        "How the user shows who it is. tls: by a client certificate, which the operator issues for a cluster of its own"
        " that trusts its CA of clients; of any other cluster it is yours to issue. oauthbearer: by a token of your"
        " identity provider, so that only ACLs and quotas are from here.",
        default="scram-sha-512",
    )
    password_secret: PasswordSecret | None = spec_field(
        Record(PasswordSecret),
        "A Secret of yours with the password; it is read again every few minutes. Absent: the operator makes one up,"
        " and keeps it in the user's Secret.",
    )

    @property
    def mechanism(self) -> str:
        """Kafka's word for the credential that the cluster keeps; "": it keeps none."""
        return SCRAM.get(self.type, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class AclResource:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.name) == (self.type != 'cluster')",
            message="`name` must be set for every `type` but cluster, which has none",
            holds=lambda one: (one.name is not None) == (one.type != "cluster"),
        ),
        Rule(
            cel="self.type != 'cluster' || self.patternType == 'literal'",
            message="`patternType` may only be literal for the cluster",
            holds=lambda one: one.type != "cluster" or one.pattern_type == "literal",
        ),
    )

    type: str = spec_field(choice("topic", "group", "cluster", "transactionalId"), "Kafka's resource.", required=True)
    name: str | None = spec_field(
        Text(max_length=249, min_length=1), "Its name, its beginning (prefixed), or * for all. Not for the cluster."
    )
    pattern_type: str = spec_field(choice("literal", "prefixed"), "How `name` is meant.", default="literal")


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRule:
    resource: AclResource = spec_field(Record(AclResource), "What it is about.", required=True)
    operations: tuple[str, ...] = spec_field(
        ListOf(items=choice(*OPERATIONS), min_items=1, max_items=len(OPERATIONS), unique=True),
        "Kafka's operations.",
        required=True,
    )
    host: str = spec_field(
        Text(max_length=64, min_length=1, pattern=r"^[^\s]+$", pattern_text="must be an address or *"),
        "Address from which, or * for all.",
        default="*",
    )
    permission: str = spec_field(choice("allow", "deny"), "A deny wins over every allow.", default="allow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    producer_byte_rate: int | None = spec_field(Integer(low=1, high=2**53), "Bytes per second that it may produce.")
    consumer_byte_rate: int | None = spec_field(Integer(low=1, high=2**53), "Bytes per second that it may fetch.")
    request_percentage: int | None = spec_field(
        Integer(low=1, high=1_000_000), "Percentage of request handling, 100 for each of a broker's threads."
    )

    @property
    def by_key(self) -> dict[str, float]:
        """Under Kafka's names."""
        found = {
            "producer_byte_rate": self.producer_byte_rate,
            "consumer_byte_rate": self.consumer_byte_rate,
            "request_percentage": self.request_percentage,
        }
        return {key: float(value) for key, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSpec:
    RULES: ClassVar[tuple[Rule, ...]] = (*CLUSTER_RULES, fixed("userName", "it would be another user"))

    cluster_ref: ClusterRef | None = spec_field(
        Record(ClusterRef), "The CoordinatorCluster that knows the user. Or set `bootstrapServers`."
    )
    bootstrap_servers: str | None = spec_field(
        BOOTSTRAP,
        "Addresses of a cluster without a CoordinatorCluster (Apache Kafka or Muster), as host:port,host:port. Or set"
        " `clusterRef`.",
    )
    tls: Tls | None = spec_field(
        Record(Tls), f"{TLS_TEXT} The user's client settings are made from it, so its `caSecret` is copied to them."
    )
    login: Authentication | None = spec_field(
        Record(Authentication), f"{AUTHENTICATION_TEXT} It is the operator's login: it must be allowed to do this."
    )
    user_name: str | None = spec_field(
        _USER_NAME,
        "The user's name in Kafka, without `User:`; with type oauthbearer what the token's claim says. Absent:"
        " `metadata.name`; with type tls CN=`metadata.name`. It may not change.",
    )
    authentication: UserAuthentication = spec_field(
        Record(UserAuthentication), "How the user shows who it is.", default={}
    )
    acls: tuple[AclRule, ...] = spec_field(
        ListOf(items=Record(AclRule), max_items=ACLS_MAX),
        "What the user may do. ACLs of the same user that are not from here are left alone.",
        default=[],
    )
    quotas: Quotas = spec_field(Record(Quotas), "How much the user may do. Absent fields are not touched.", default={})
    secret_name: str | None = spec_field(
        SECRET_NAME,
        "The Secret with the user's credentials and client settings, made by the operator. Absent: `metadata.name`."
        " None is made for a user of type tls whose certificate is yours to issue, nor of type oauthbearer.",
    )
    deletion_policy: str = spec_field(
        POLICY,
        "What becomes of the user's credentials, ACLs and quotas, as far as they are from here, when this object is"
        " deleted.",
        default=DELETE,
    )

    @property
    def access(self) -> Access:
        return Access(tls=self.tls, authentication=self.login)

    @property
    def deletes(self) -> bool:
        return self.deletion_policy == DELETE


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStatus:
    observed_generation: int | None = spec_field(LONG, "metadata.generation of the spec that this status refers to.")
    conditions: tuple[Any, ...] | None = spec_field(CONDITIONS, "Conditions (docs/operator-conditions.md).")
    principal: str | None = spec_field(Text(max_length=300), "The user as ACLs name it.")
    secret: str | None = spec_field(WORD, "The Secret with its credentials and client settings. Absent: none is made.")
    mechanism: str | None = spec_field(
        WORD, "SASL mechanism of the credential that is this object's, recorded before it is set."
    )
    password_version: str | None = spec_field(
        Text(max_length=300), "Version of the Secret whose password the cluster has been given."
    )
    acls: tuple[str, ...] | None = spec_field(
        ListOf(items=Text(max_length=400), max_items=RECORDED_ACLS_MAX),
        "ACLs of this object, recorded before they are made: only these are ever removed.",
    )
    quotas: tuple[str, ...] | None = spec_field(
        ListOf(items=Text(max_length=100), max_items=10),
        "Quotas of this object, recorded before they are set: only these are ever removed.",
    )


def parse_user(obj: Json) -> UserSpec:
    """The spec of a User as the API server returned it. Raises `InvalidObject`."""
    return parse_spec(obj, UserSpec, name_length_max=None)
