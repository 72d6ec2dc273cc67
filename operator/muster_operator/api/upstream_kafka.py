"""`spec.topics.kafka` of a CoordinatorCluster: the Kafka whose topics are used, beside which groups are ours (ADR 96).

Problem: all clients have the rights of one user there, and their listeners need a port for each of its brokers. What
the coordinators refuse at their start should be refused when the object is written. Mechanism: rules, as far as CEL
can see the relation at a price that the API server grants; what `nodeIds` mean is looked at by the parser, and told as
condition Degraded, `InvalidSpec`.

Login and certificates come from Secrets of the cluster's namespace, which only the kubelet reads. What this does not
do: ask that Kafka anything, or give listeners that are reached from outside a port for each broker.
"""

# ruff: noqa: RUF009  # a field is a call with its shape and text

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from typing_extensions import override

from muster_operator.api.client_access import SASL_MECHANISMS, SECRET_NAME
from muster_operator.api.errors import InvalidObject
from muster_operator.api.fields import Record, spec_field
from muster_operator.api.pod import NAME
from muster_operator.api.schema import Boolean, Rule, Text, choice
from muster_operator.api.security import NONE, OAUTHBEARER, SASL

PREFIX: Final = "upstream."
"""How the coordinator's settings about that Kafka begin. All of them are the operator's beside `topics`."""
BOOTSTRAP_MAX: Final = 20
"""Addresses of `bootstrapServers`, as many as the coordinator takes."""
NODES_MAX: Final = 200
"""Ids in `nodeIds`, as many as the coordinator takes."""
NODE_ID_PARTS_MAX: Final = 20
"""Ids and ranges of ids that `nodeIds` lists."""
NODE_ID_DIGITS_MAX: Final = 6
"""The coordinators' own ids begin at 1000000 (`upstream.coordinator.node.id.base`)."""
_ID: Final = rf"[0-9]{{1,{NODE_ID_DIGITS_MAX}}}"
_IDS: Final = rf"{_ID}(-{_ID})?"
_PORT: Final = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_ADDRESS: Final = rf"[^\s,:]+:{_PORT}"


def addresses(most: int) -> Text:
    """At most so many, with commas between them."""
    return Text(
        max_length=2000,
        min_length=3,
        pattern=rf"^{_ADDRESS}(,{_ADDRESS}){{0,{most - 1}}}$",
        pattern_text=f"must be host:port, at most {most} with commas between them",
    )


def node_ids(text: str) -> tuple[int, ...]:
    """The ids in `0-8,1001`, in their order. Raises ValueError that says what is wrong with them."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        first, last = int(low), int(high if dash else low)
        if last < first:
            raise ValueError(f"{part} ends before it begins")
        if len(found) + last - first + 1 > NODES_MAX:
            raise ValueError(f"must be at most {NODES_MAX} ids")
        found.extend(range(first, last + 1))
    if len(set(found)) != len(found):
        raise ValueError("may not hold an id twice")
    return tuple(found)


class _NodeIds(Text):
    """Text that is looked at beyond its pattern. A rule in CEL would split text of texts, whose cost the API server
    cannot bound: it would refuse the whole definition."""

    @override
    def parse(self, value: Any, path: str) -> str:
        text = super().parse(value, path)
        try:
            node_ids(text)
        except ValueError as error:
            raise InvalidObject(path, str(error)) from error
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSecret:
    name: str = spec_field(
        SECRET_NAME,
        "Name of a Secret in this namespace, with the keys `username` and `password`, neither with quotation marks or"
        " backslashes in it.",
        required=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamLogin:
    type: str = spec_field(
        choice("scram-sha-512", "scram-sha-256", "plain"),
        "How the coordinators show who they are. plain: with `tls` only.",
        required=True,
    )
    secret: UpstreamSecret = spec_field(
        Record(UpstreamSecret),
        "Where user and password are. The coordinators read them when they start: after a change of them, restart them"
        " (`kubectl muster restart`).",
        required=True,
    )

    @property
    def mechanism(self) -> str:
        """In Kafka's words."""
        return SASL_MECHANISMS[self.type]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTls:
    trusted_secret_name: str | None = spec_field(
        NAME, "Secret with `ca.crt`: CAs of its brokers' certificates. Absent: those of the image's system."
    )
    certificate_secret_name: str | None = spec_field(
        NAME,
        "Secret with `tls.crt` and `tls.key`, without a password: the certificate that the coordinators show. Absent:"
        " none. A change of either Secret is taken up without a restart.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaStore:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.authentication) || self.authentication.type != 'plain' || has(self.tls)",
            message="`tls` must be set with `authentication` of type plain: the password would be sent as it is",
            holds=lambda kafka: (
                kafka.authentication is None or kafka.authentication.type != "plain" or kafka.tls is not None
            ),
        ),
        Rule(
            cel="!has(self.passLoginsOn) || !self.passLoginsOn || has(self.authentication)",
            message="`authentication` must be set with `passLoginsOn`: the coordinators are a user of their own there",
            holds=lambda kafka: not kafka.pass_logins_on or kafka.authentication is not None,
        ),
    )

    bootstrap_servers: str = spec_field(
        addresses(BOOTSTRAP_MAX),
        "Some brokers of that Kafka, as host:port,host:port.",
        required=True,
    )
    node_ids: str = spec_field(
        _NodeIds(
            max_length=NODE_ID_PARTS_MAX * (2 * NODE_ID_DIGITS_MAX + 2) - 1,
            min_length=1,
            pattern=rf"^{_IDS}(,{_IDS}){{0,{NODE_ID_PARTS_MAX - 1}}}$",
            pattern_text=f"must be ids of brokers, as 0-8,1001-1003: at most {NODE_ID_PARTS_MAX} ids or ranges, each id"
            f" with at most {NODE_ID_DIGITS_MAX} digits",
        ),
        f"Ids that its brokers have or may get, at most {NODES_MAX}. Each is a port of every coordinator; one without"
        " is not reached by clients. Only append to it: the order says which port is whose.",
        default="0-8",
    )
    authentication: UpstreamLogin | None = spec_field(
        Record(UpstreamLogin),
        "Who the coordinators are there; clients have this user's rights, less what `authorization` denies them, unless"
        " `passLoginsOn`. Absent: nobody.",
    )
    pass_logins_on: bool = spec_field(
        Boolean(),
        "Clients log in at that Kafka themselves: what they say by SCRAM or oauthbearer is passed on, its users and"
        " ACLs hold, for groups too with `authorization`. The operator's looks are by the login of `authentication`.",
        default=False,
    )
    tls: UpstreamTls | None = spec_field(
        Record(UpstreamTls),
        "Connections to it are encrypted; certificate and name of its brokers are verified. Absent: they are not"
        " encrypted.",
    )

    @property
    def ids(self) -> tuple[int, ...]:
        """Of its brokers, in the order of their ports."""
        return node_ids(self.node_ids)

    @property
    def protocol(self) -> str:
        """Kafka's name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        transport = "PLAINTEXT" if self.tls is None else "SSL"
        return transport if self.authentication is None else f"SASL_{transport}"

    @property
    def knows_us(self) -> bool:
        """The coordinators are somebody there."""
        return self.authentication is not None or (
            self.tls is not None and self.tls.certificate_secret_name is not None
        )


def _kafka(spec: Any) -> KafkaStore | None:  # noqa: ANN401  # a ClusterSpec, whose module imports this one
    found: KafkaStore | None = None if spec.topics is None else spec.topics.kafka
    return found


_NO_KAFKA: Final = "!has(self.topics) || !has(self.topics.kafka)"
_PASSES: Final = "has(self.topics.kafka.passLoginsOn) && self.topics.kafka.passLoginsOn"
CLUSTER_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        cel=f"{_NO_KAFKA} || !({_PASSES}) || !has(self.topics.kafka.authentication) || (has(self.listeners)"
        " && self.listeners.all(one, has(one.authentication) && (one.authentication.type.startsWith('scram')"
        f" || one.authentication.type == '{OAUTHBEARER}'))"
        " && self.listeners.exists(one, one.type == 'internal'"
        " && one.authentication.type == self.topics.kafka.authentication.type))",
        message="`listeners` must all ask for SCRAM or a token with `passLoginsOn`, and an internal one by the type of"
        " `topics.kafka.authentication`, by which the operator logs in",
        holds=lambda spec: (
            (kafka := _kafka(spec)) is None
            or not kafka.pass_logins_on
            or kafka.authentication is None
            or (
                all(one.authenticates_by in SASL for one in spec.listeners)
                and any(one.authenticates_by == kafka.authentication.type for one in spec.internal_listeners)
            )
        ),
    ),
    Rule(
        cel=f"{_NO_KAFKA} || !({_PASSES}) || has(self.topics.kafka.tls) || !has(self.listeners)"
        f" || !self.listeners.exists(one, has(one.authentication) && one.authentication.type == '{OAUTHBEARER}')",
        message="`topics.kafka.tls` must be set with `passLoginsOn` and a listener of type `oauthbearer`: its tokens"
        " are sent on as they are",
        holds=lambda spec: (
            (kafka := _kafka(spec)) is None
            or not kafka.pass_logins_on
            or kafka.tls is not None
            or all(one.authenticates_by != OAUTHBEARER for one in spec.listeners)
        ),
    ),
    Rule(
        cel=f"{_NO_KAFKA} || !has(self.listeners) || self.listeners.all(one, one.type == 'internal')",
        message="`listeners` may only be of type `internal` beside `topics.kafka`: one from outside would need a port"
        " for each broker and coordinator",
        holds=lambda spec: _kafka(spec) is None or not spec.external_listeners,
    ),
    Rule(
        cel=f"{_NO_KAFKA} || (!has(self.topics.kafka.authentication) && (!has(self.topics.kafka.tls)"
        " || !has(self.topics.kafka.tls.certificateSecretName))) || (has(self.listeners) && self.listeners.all(one,"
        " has(one.authentication) && one.authentication.type != 'none'))",
        message="`listeners` must all have `authentication` where `topics.kafka` has a login or a certificate: whoever"
        " reaches them has the rights of that user",
        holds=lambda spec: (
            (kafka := _kafka(spec)) is None
            or not kafka.knows_us
            or all(one.authenticates_by != NONE for one in spec.listeners)
        ),
    ),
)
"""Rules of the whole spec."""
