"""A topic or a user of a Kafka cluster as observed in one pass, and what may be changed there, as values.

No password is part of any of these: a change that needs one says in which Secret it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import override

from muster_operator.api.topic import TopicSpec
from muster_operator.api.user import UserSpec
from muster_operator.world.certificates import AuthorityView, CertificateView, Damaged
from muster_operator.world.login import Where
from muster_operator.world.views import OwnerView, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    topic_id: str
    partitions: int
    replication_factor: int
    """Of the first partition."""
    configs: Mapping[str, str]
    """Only what is set on the topic itself."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Acl:
    """One ACL of a principal that is known elsewhere, in Kafka's words."""

    permission: str
    operation: str
    host: str
    resource: str
    pattern: str
    name: str

    @override
    def __str__(self) -> str:
        """Recorded in a status; the name is last, since only it may have spaces. Equal texts are equal ACLs."""
        return f"{self.permission} {self.operation} from {self.host} on {self.pattern} {self.resource} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserView:
    mechanisms: frozenset[str]
    """SCRAM credentials that the cluster has of the user."""
    acls: tuple[Acl, ...] | None
    """All ACLs of the principal, foreign ones too; None: the cluster has no authorizer."""
    quotas: Mapping[str, float]
    """Of exactly this user, without a client id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretView:
    """A Secret without its content."""

    name: str
    version: str
    """Another one for each content."""
    owned: bool
    """The User that is looked at controls it."""
    settings_hash: str
    """Annotation with the hash of what its content was made from; "" without one."""
    certificate: CertificateView | None = None
    """That of `tls.crt`, if `tls.key` is its key; None: there is none that can be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaObjectWorld:
    """What a Topic and a User have in common."""

    owner: OwnerView
    bootstrap: str | Unknown
    where: Where | Unknown
    now_ms: int
    elder: str | None
    """`namespace/name` of an older object of the same kind for the same topic or user."""
    cluster_gone: bool
    """`clusterRef` names a CoordinatorCluster that the API server does not have: nothing of it can be left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWorld(KafkaObjectWorld):
    spec: TopicSpec
    name: str
    topic: TopicView | Unknown | None
    """None: the cluster says that there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserWorld(KafkaObjectWorld):
    spec: UserSpec
    name: str
    user: UserView | Unknown
    secret: SecretView | Unknown | None
    """The user's Secret; None: there is none."""
    password: SecretView | Unknown | None
    """`passwordSecret`; None: it is not named."""
    authority: AuthorityView | Damaged | Unknown | None = None
    """The operator's CA of clients, for a user that shows a certificate to a cluster of ours; None: its certificate is
    somebody else's matter."""
    authority_owner: str = ""
    """uid of the CoordinatorCluster that has the CA."""
    certificate_days: int = 0
    authorities: str | Unknown = ""
    """`tls.caSecret`, or those of a cluster of ours, which clients of the user have to trust; nothing secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    name: str
    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    name: str
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTopicConfigs:
    name: str
    values: Mapping[str, str]
    reset: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """One that does not exist counts as deleted; one of another id stays."""

    name: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPassword:
    """The password is handed in beside it."""

    user: str
    mechanism: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveCredential:
    user: str
    mechanism: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddAcls:
    principal: str
    acls: tuple[Acl, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAcls:
    """Exactly these: none of them is a filter that could find another."""

    principal: str
    acls: tuple[Acl, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuotas:
    user: str
    values: Mapping[str, float]
    removed: tuple[str, ...]


KafkaChange = (
    CreateTopic
    | AddPartitions
    | SetTopicConfigs
    | DeleteTopic
    | SetPassword
    | RemoveCredential
    | AddAcls
    | RemoveAcls
    | SetQuotas
)
