"""One pass over a User: its Secret, its credential, its ACLs and quotas; and their end.

What this object makes in the cluster is recorded in its status before it is made, and only what is recorded is ever
taken away. An ACL or quota that was there before, even an equal one, is not recorded: it is foreign, and stays when the
object goes. A credential that was there before is not overwritten, since that would lock somebody out, unless the
annotation `muster.dev/adopt` says that it is meant.

1. the Secret: written when it is not there or was made from something else (address, authorities, password);
2. record what is to be made; 3. make it, and take away what is recorded and not wanted; 4. look again.
"""

from typing import Any

from muster_operator.api.conditions import KafkaObjectCondition, Reason
from muster_operator.api.security import OAUTHBEARER
from muster_operator.api.user import CLUSTER_RESOURCE, UserSpec
from muster_operator.naming import USER, labels
from muster_operator.plan.actions import (
    Action,
    ChangeKafka,
    ClientCertificate,
    DeleteUserSecret,
    PasswordFrom,
    Plan,
    SetFinalizer,
    WriteUserSecret,
)
from muster_operator.plan.certificates import renewal_ms
from muster_operator.plan.conditions import Finding, finding, timestamp
from muster_operator.plan.kafka_object import Judgement, as_plan, guarded, has_finalizer, not_known, released, shared
from muster_operator.plan.settings import PlanSettings
from muster_operator.resources.owned import owner_reference
from muster_operator.resources.user_secret import ClientSettings, settings_hash
from muster_operator.world.certificates import AuthorityView, Damaged
from muster_operator.world.kafka_object import (
    Acl,
    AddAcls,
    RemoveAcls,
    RemoveCredential,
    SecretView,
    SetPassword,
    SetQuotas,
    UserView,
    UserWorld,
)
from muster_operator.world.views import Unknown

LABEL_LENGTH_MAX = 63
"""Kubernetes' bound of a label's value; names of Users may be longer."""
PASSWORD_KEY = "password"
DAY_MS = 86_400_000


def plan_user(world: UserWorld, settings: PlanSettings) -> Plan:
    found = judge(world)
    return as_plan(world, found, settings, extra=(_credentials(world),))


def judge(world: UserWorld) -> Judgement:
    """(decision, reason) and what follows from it."""
    if world.owner.deleting:
        return _ending(world)
    if world.elder is not None:
        return shared(world, f"user {world.name}")
    address = world.bootstrap if _secret_name(world) is not None else None  # outside it may be late
    for answer in (world.where, world.user, world.secret, world.password, world.authorities, world.authority, address):
        if isinstance(answer, Unknown):
            return not_known(answer)
    assert isinstance(world.user, UserView)
    trouble = _trouble(world, world.user)
    if trouble is not None:
        actions = released(world) if not _recorded_anything(world) else ()
        return Judgement(decision=trouble[0], reason=trouble[1], degraded=True, actions=actions)
    guard = (*guarded(world, world.spec.deletes), *_former_secret(world))
    fields = _fields(world, world.user)
    written = _secret(world)
    if written is not None:
        message = f"Secret {written.name} is being written"
        return Judgement(decision=Reason.CHANGING, reason=message, actions=(*guard, written), fields=fields)
    changes, told = _changes(world, world.user)
    done = _password_told(world, changes)
    if changes:
        return Judgement(
            decision=Reason.CHANGING, reason="; ".join(told), actions=(*guard, *changes), fields=fields, when_done=done
        )
    if _records(fields) != _records(world.owner.status):
        message = "credential, ACLs and quotas are recorded in the status first"
        return Judgement(decision=Reason.RECORDING_CHANGES, reason=message, actions=guard, fields=fields, soon=True)
    message = f"{principal_of(world)} is as specified"
    return Judgement(decision=Reason.APPLIED, reason=message, ready=True, actions=guard, fields=fields)


def user_name(spec: UserSpec, object_name: str) -> str:
    """The user in Kafka, without `User:`."""
    if spec.user_name is not None:
        return spec.user_name
    return f"CN={object_name}" if spec.authentication.type == "tls" else object_name


def secret_name(spec: UserSpec, object_name: str, *, issued: bool = False) -> str | None:
    """None: the user has no Secret. `issued`: the operator issues its certificate."""
    return (spec.secret_name or object_name) if spec.authentication.mechanism or issued else None


def principal_of(world: UserWorld) -> str:
    return f"User:{world.name}"


def wanted_acls(spec: UserSpec) -> tuple[Acl, ...]:
    """Each operation of each rule, once."""
    found = {
        Acl(
            permission=rule.permission,
            operation=operation,
            host=rule.host,
            resource=rule.resource.type,
            pattern=rule.resource.pattern_type,
            name=rule.resource.name or CLUSTER_RESOURCE,
        )
        for rule in spec.acls
        for operation in rule.operations
    }
    return tuple(sorted(found))


def client_settings(world: UserWorld) -> ClientSettings:
    assert isinstance(world.bootstrap, str), "an address is known when a Secret is planned"
    assert isinstance(world.authorities, str), "and whom to trust"
    mechanism = world.spec.authentication.mechanism
    transport = "SSL" if world.spec.tls is not None else "PLAINTEXT"
    return ClientSettings(
        bootstrap=world.bootstrap,
        protocol=f"SASL_{transport}" if mechanism else transport,
        mechanism=mechanism,
        username=world.name,
        authorities=world.authorities,
    )


def _trouble(world: UserWorld, user: UserView) -> tuple[Reason, str] | None:
    """What a person has to settle first."""
    spec = world.spec
    if isinstance(world.secret, SecretView) and not world.secret.owned:
        message = f"Secret {world.secret.name} exists and is not of this User: name another one by `secretName`"
        return Reason.NAME_TAKEN, message
    if spec.authentication.password_secret is not None and world.password is None:
        return Reason.SECRET_NOT_FOUND, f"there is no Secret {spec.authentication.password_secret.name}"
    if isinstance(world.authority, Damaged):
        return Reason.SECRET_UNUSABLE, f"Secret {world.authority.name}: {world.authority.problem}"
    mechanism = spec.authentication.mechanism
    foreign = mechanism in user.mechanisms and world.owner.status.get("mechanism") != mechanism
    if foreign and not world.owner.adopts:
        message = f"the cluster has a {mechanism} credential of {world.name} that is not from here"
        return Reason.NOT_ADOPTED, f'{message}: annotation muster.dev/adopt: "true" gives it another password'
    if user.acls is None and spec.acls:
        return Reason.NO_AUTHORIZER, "the cluster has no authorizer, so it keeps no ACLs"
    return None


def _secret(world: UserWorld) -> WriteUserSecret | None:
    name = _secret_name(world)
    if name is None:
        return None
    certificate = _certificate(world)
    settings = client_settings(world)
    source = _password_from(world)
    wanted = settings_hash(settings, source.version if source is not None else "")
    as_made = isinstance(world.secret, SecretView) and world.secret.settings_hash == wanted
    if as_made and (certificate is None or not certificate.fresh):
        return None
    return WriteUserSecret(
        name=name, settings=settings, settings_hash=wanted,
        labels=labels(component=USER, instance=world.owner.name[:LABEL_LENGTH_MAX].rstrip(".-")),
        owner_reference=owner_reference(world.owner, "User"), password=source, certificate=certificate,
    )  # fmt: skip


def _secret_name(world: UserWorld) -> str | None:
    return secret_name(world.spec, world.owner.name, issued=world.authority is not None)


def _certificate(world: UserWorld) -> ClientCertificate | None:
    """None: the operator issues none. A fresh one at two thirds of its life, and at once when the CA is another one:
    the one before is trusted until the last certificate of it has expired (`plan.certificates`)."""
    authority = world.authority
    if not isinstance(authority, AuthorityView):
        return None
    held = world.secret.certificate if isinstance(world.secret, SecretView) else None
    good = held is not None and held.issuer_key_id == authority.issuing.key_id and world.now_ms < renewal_ms(held)
    days_left = max(1, (authority.issuing.not_after_ms - world.now_ms) // DAY_MS)
    return ClientCertificate(
        authority=authority.secret.name, authority_owner=world.authority_owner, subject=world.name,
        days=min(world.certificate_days, days_left), fresh=not good,
    )  # fmt: skip


def _former_secret(world: UserWorld) -> tuple[Action, ...]:
    former = world.owner.status.get("secret")
    if not former or former == _secret_name(world):
        return ()
    return (DeleteUserSecret(name=str(former)),)


def _password_from(world: UserWorld) -> PasswordFrom | None:
    reference = world.spec.authentication.password_secret
    if reference is None or not isinstance(world.password, SecretView):
        return None
    return PasswordFrom(secret=reference.name, key=reference.key, version=world.password.version)


def _changes(world: UserWorld, user: UserView) -> tuple[list[ChangeKafka], list[str]]:
    """What the cluster is told: only what the *stored* status has recorded."""
    status, spec = world.owner.status, world.spec
    changes: list[ChangeKafka] = []
    told: list[str] = []
    mechanism, recorded = spec.authentication.mechanism, status.get("mechanism")
    if recorded and recorded != mechanism and recorded in user.mechanisms:
        changes.append(ChangeKafka(change=RemoveCredential(user=world.name, mechanism=str(recorded))))
        told.append(f"its {recorded} credential is removed")
    if mechanism and recorded == mechanism and isinstance(world.secret, SecretView):
        told_version = status.get("passwordVersion")
        if mechanism not in user.mechanisms or told_version != world.secret.version:
            source = PasswordFrom(secret=world.secret.name, key=PASSWORD_KEY, version=world.secret.version)
            change = SetPassword(user=world.name, mechanism=mechanism)
            changes.append(ChangeKafka(change=change, password=source))
            told.append("its password is set")
    live, ours = set(user.acls or ()), set(status.get("acls") or ())
    wanted = wanted_acls(spec)
    missing = tuple(one for one in wanted if one not in live and str(one) in ours)
    surplus = tuple(sorted(one for one in live if str(one) in ours and one not in wanted))
    if missing:
        changes.append(ChangeKafka(change=AddAcls(principal=principal_of(world), acls=missing)))
        told.append(f"{len(missing)} ACLs are added")
    if surplus:
        changes.append(ChangeKafka(change=RemoveAcls(principal=principal_of(world), acls=surplus)))
        told.append(f"{len(surplus)} ACLs are removed")
    change_of_quotas = _quotas(world, user)
    if change_of_quotas is not None:
        changes.append(ChangeKafka(change=change_of_quotas))
        told.append("its quotas are set")
    return changes, told


def _quotas(world: UserWorld, user: UserView) -> SetQuotas | None:
    ours, wanted = set(world.owner.status.get("quotas") or ()), world.spec.quotas.by_key
    values = {key: value for key, value in wanted.items() if key in ours and user.quotas.get(key) != value}
    removed = tuple(sorted(key for key in ours - set(wanted) if key in user.quotas))
    return SetQuotas(user=world.name, values=values, removed=removed) if values or removed else None


def _password_told(world: UserWorld, changes: list[ChangeKafka]) -> dict[str, Any]:
    found = [one.password for one in changes if isinstance(one.change, SetPassword) and one.password is not None]
    return {"passwordVersion": found[0].version} if found else {}


def _fields(world: UserWorld, user: UserView) -> dict[str, Any]:
    """The status, with what is to be made recorded in it."""
    status, spec = world.owner.status, world.spec
    found: dict[str, Any] = {"principal": principal_of(world)}
    name = _secret_name(world)
    if name is not None:
        found["secret"] = name
    mechanism, recorded = spec.authentication.mechanism, status.get("mechanism")
    if recorded and recorded != mechanism and recorded in user.mechanisms:
        found["mechanism"] = recorded  # first that one goes
    elif mechanism:
        found["mechanism"] = mechanism
    if "passwordVersion" in status and found.get("mechanism") == recorded:
        found["passwordVersion"] = status["passwordVersion"]
    live, ours = set(user.acls or ()), set(status.get("acls") or ())
    wanted = wanted_acls(spec)
    acls = {str(one) for one in live if str(one) in ours}
    acls |= {str(one) for one in wanted if one not in live or str(one) in ours}
    if acls:
        found["acls"] = sorted(acls)
    kept = {key for key in status.get("quotas") or () if key in user.quotas}
    wanted_quotas = spec.quotas.by_key
    quotas = kept | {key for key, value in wanted_quotas.items() if key in kept or user.quotas.get(key) != value}
    return found | ({"quotas": sorted(quotas)} if quotas else {})


def _records(status: Any) -> tuple[Any, ...]:  # noqa: ANN401 (a status as stored)
    return status.get("mechanism"), tuple(status.get("acls") or ()), tuple(status.get("quotas") or ())


def _recorded_anything(world: UserWorld) -> bool:
    return _records(world.owner.status) != (None, (), ())


def _ending(world: UserWorld) -> Judgement:
    """Take away what is recorded and still there; when a look finds nothing of it any more, the object may go."""
    if not has_finalizer(world):
        return Judgement(decision=Reason.DELETING, reason="nothing of it is to be removed", ready=None)
    free = Judgement(
        decision=Reason.DELETING, reason="nothing of it is left to remove", ready=None,
        actions=(SetFinalizer(present=False),),
    )  # fmt: skip
    if not world.spec.deletes or world.elder is not None or world.cluster_gone or not _recorded_anything(world):
        return free
    if isinstance(world.where, Unknown):
        return not_known(world.where)
    if isinstance(world.user, Unknown):
        return not_known(world.user)
    actions = _removals(world, world.user)
    if not actions:
        return free
    message = f"credential, ACLs and quotas of {principal_of(world)} that are from here are being removed"
    return Judgement(decision=Reason.REMOVING, reason=message, actions=actions)


def _removals(world: UserWorld, user: UserView) -> tuple[Action, ...]:
    status = world.owner.status
    found: list[Action] = []
    mechanism = status.get("mechanism")
    if mechanism and mechanism in user.mechanisms:
        found.append(ChangeKafka(change=RemoveCredential(user=world.name, mechanism=str(mechanism))))
    acls = tuple(one for one in user.acls or () if str(one) in set(status.get("acls") or ()))
    if acls:
        found.append(ChangeKafka(change=RemoveAcls(principal=principal_of(world), acls=acls)))
    quotas = tuple(sorted(set(status.get("quotas") or ()) & set(user.quotas)))
    if quotas:
        found.append(ChangeKafka(change=SetQuotas(user=world.name, values={}, removed=quotas)))
    return tuple(found)


def _credentials(world: UserWorld) -> Finding:
    """CredentialsReady. It does not count for Ready where the credentials are a person's matter."""
    type_ = KafkaObjectCondition.CREDENTIALS_READY
    mechanism = world.spec.authentication.mechanism
    if not mechanism and world.authority is not None:
        return _issued(world)
    if world.spec.authentication.type == OAUTHBEARER:
        return finding(type_, None, Reason.TOKEN_YOURS, f"the identity provider says who is {principal_of(world)}")
    if not mechanism:
        message = f"issue a client certificate that the cluster takes for {principal_of(world)}"
        return finding(type_, False, Reason.CERTIFICATE_YOURS, message)
    if world.elder is not None or isinstance(world.user, Unknown) or isinstance(world.secret, Unknown):
        return finding(type_, None, Reason.NOT_OBSERVED, "it could not be observed")
    status = world.owner.status
    same = isinstance(world.secret, SecretView) and world.secret.version == status.get("passwordVersion")
    if same and mechanism in world.user.mechanisms and status.get("mechanism") == mechanism:
        return finding(
            type_, True, Reason.CREDENTIALS_SET, f"the cluster has the password of Secret {status['secret']}"
        )
    return finding(type_, False, Reason.CHANGING, "Secret and cluster do not have the same password yet")


def _issued(world: UserWorld) -> Finding:
    type_ = KafkaObjectCondition.CREDENTIALS_READY
    if world.elder is not None or isinstance(world.secret, Unknown) or isinstance(world.authority, Unknown):
        return finding(type_, None, Reason.NOT_OBSERVED, "it could not be observed")
    held = world.secret.certificate if isinstance(world.secret, SecretView) and world.secret.owned else None
    if held is None or held.not_after_ms <= world.now_ms:
        return finding(type_, False, Reason.CHANGING, f"no certificate is issued for {principal_of(world)} yet")
    told = f"for {principal_of(world)} until {timestamp(held.not_after_ms)}, renewed by itself"
    return finding(type_, True, Reason.CERTIFICATE_ISSUED, told)
