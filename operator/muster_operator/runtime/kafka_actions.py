"""The actions of Topics and Users: the finalizer, a change in Kafka, a user's Secret.

Passwords live here for the length of one call: read from a Secret of the version that the plan was made for, or drawn;
handed to Kafka or written into the user's Secret; never logged, never in an error.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from muster_operator import naming
from muster_operator.api.client_access import CERTIFICATE_KEY, PRIVATE_KEY_KEY
from muster_operator.errors import Conflict, Refused, Transient
from muster_operator.kube.kinds import SECRET
from muster_operator.kube.views import controller_uid
from muster_operator.plan.actions import (
    ChangeKafka,
    ClientCertificate,
    DeleteUserSecret,
    PasswordFrom,
    SetFinalizer,
    WriteUserSecret,
)
from muster_operator.plan.user import PASSWORD_KEY
from muster_operator.ports import Clock, Kafka, Kube, Rand
from muster_operator.resources import user_secret
from muster_operator.runtime.keys import OwnerKey, api_version_of
from muster_operator.runtime.observe_certificates import AUTHORITY_KEYS
from muster_operator.runtime.own_secrets import check_ours, value_of
from muster_operator.runtime.x509 import Issued, Unreadable, key_store, new_client_certificate
from muster_operator.world.kafka_object import SetPassword
from muster_operator.world.login import Where

Object = Mapping[str, Any]


class KafkaActions:
    def __init__(self, *, kube: Kube, kafka: Kafka, rand: Rand, clock: Clock) -> None:
        self._kube, self._kafka, self._rand, self._clock = kube, kafka, rand, clock

    async def set_finalizer(self, action: SetFinalizer, key: OwnerKey, uid: str) -> bool:
        """Under the resource version that was read: other finalizers are neither lost nor brought back."""
        live = await self._kube.get(
            api_version=api_version_of(key), kind=key.kind, namespace=key.namespace, name=key.name
        )
        if live is None or live["metadata"]["uid"] != uid:
            return False
        metadata = live["metadata"]
        before = list(metadata.get("finalizers") or ())
        after = [one for one in before if one != naming.FINALIZER] + [naming.FINALIZER] * action.present
        if before == after:
            return False
        return await self._kube.patch(
            {
                "apiVersion": api_version_of(key),
                "kind": key.kind,
                "metadata": {
                    "name": key.name,
                    "namespace": key.namespace,
                    "uid": uid,
                    "resourceVersion": metadata["resourceVersion"],
                    "finalizers": after or None,
                },
            }
        )

    async def change(self, action: ChangeKafka, where: Where | None, namespace: str) -> bool:
        if where is None:
            raise Transient("NoBootstrap", "the cluster has no address now")
        password = "" if action.password is None else await self._password(action.password, namespace)
        if isinstance(action.change, SetPassword) and not password:
            raise Refused("NoPassword", "the plan does not say where the password is")  # an empty one is set for nobody
        await self._kafka.change(where=where, change=action.change, password=password)
        return True

    async def write_secret(self, action: WriteUserSecret, owner: OwnerKey, uid: str) -> bool:
        found = await self._secret(owner.namespace, action.name)
        if found is not None and controller_uid(found) != uid:
            raise Refused("NameTaken", f"Secret {action.name} exists and belongs to another owner")
        own, password = None, ""
        if action.certificate is not None:
            own = await self._certificate(action.certificate, found, owner.namespace)
        elif action.password is not None:
            password = await self._password(action.password, owner.namespace)
        else:
            password = (found and _text(found, PASSWORD_KEY)) or self._rand.token()
        settings = action.settings
        content = user_secret.data(settings, password, _truststore(settings.authorities), own)
        await self._kube.apply(
            {
                "apiVersion": SECRET.api_version,
                "kind": SECRET.kind,
                "metadata": {
                    "name": action.name,
                    "namespace": owner.namespace,
                    "labels": dict(action.labels),
                    "annotations": {naming.SETTINGS_HASH_ANNOTATION: action.settings_hash},
                    "ownerReferences": [dict(action.owner_reference)],
                },
                "type": "Opaque",
                "data": {key: base64.b64encode(value).decode() for key, value in content.items()},
            }
        )
        return True

    async def _certificate(
        self, wanted: ClientCertificate, secret: Object | None, namespace: str
    ) -> user_secret.OwnCertificate:
        """A fresh one, or the one that `secret` has. Raises Conflict if there is none by now, Refused."""
        if not wanted.fresh:
            held = (_text(secret or {}, CERTIFICATE_KEY), _text(secret or {}, PRIVATE_KEY_KEY))
            if not all(held):
                raise Conflict("SecretChanged", "the certificate went away while its Secret was being written")
            made = Issued(*(f"{one}\n" for one in held))
        else:
            live = await self._secret(namespace, wanted.authority)
            if live is None:
                raise Conflict("SecretGone", f"Secret {wanted.authority} was deleted while it was being used")
            check_ours(live, wanted.authority_owner)
            authority = Issued(*(value_of(live, key) for key in AUTHORITY_KEYS))
            try:
                made = new_client_certificate(authority, wanted.subject, now_ms=self._clock.wall_ms(), days=wanted.days)
            except Unreadable as error:
                raise Refused("SecretUnusable", f"no certificate of Secret {wanted.authority}: {error}") from None
        try:
            store = key_store(made, user_secret.TRUSTSTORE_PASSWORD)
        except Unreadable as error:
            raise Conflict("SecretChanged", f"the user's Secret changed: {error}") from None
        return user_secret.OwnCertificate(certificate=made.certificate, key=made.key, keystore=store)

    async def delete_secret(self, action: DeleteUserSecret, owner: OwnerKey, uid: str) -> bool:
        found = await self._secret(owner.namespace, action.name)
        if found is None or controller_uid(found) != uid:
            return False
        return await self._kube.delete(
            api_version=SECRET.api_version, kind=SECRET.kind, namespace=owner.namespace, name=action.name,
            uid=found["metadata"]["uid"],
        )  # fmt: skip

    async def _secret(self, namespace: str, name: str) -> Object | None:
        return await self._kube.get(api_version=SECRET.api_version, kind=SECRET.kind, namespace=namespace, name=name)

    async def _password(self, source: PasswordFrom, namespace: str) -> str:
        found = await self._secret(namespace, source.secret)
        if found is None or version_of(found) != source.version:
            raise Conflict("SecretChanged", f"Secret {source.secret} changed while it was being acted upon")
        password = _text(found, source.key)
        if not password or any(not one.isprintable() for one in password):
            message = f"Secret {source.secret}: {source.key} is no password: one line of text"
            raise Refused("SecretUnusable", message)
        return password


def subject(action: SetFinalizer | ChangeKafka | WriteUserSecret | DeleteUserSecret) -> str:
    """What an action is about, for the log."""
    match action:
        case SetFinalizer():
            return f"finalizer {naming.FINALIZER}: {'set' if action.present else 'taken away'}"
        case ChangeKafka():
            return type(action.change).__name__
        case WriteUserSecret() | DeleteUserSecret():
            return f"Secret {action.name}"


def version_of(secret: Object) -> str:
    """Another one for each content, and for another Secret of the name."""
    metadata = secret["metadata"]
    return f"{metadata['uid']}/{metadata['resourceVersion']}"


def _text(secret: Object, key: str) -> str:
    """Without the line end that editors leave; "" if there is none."""
    try:
        return base64.b64decode((secret.get("data") or {}).get(key, ""), validate=True).decode().rstrip("\r\n")
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _truststore(authorities: str) -> bytes:
    if not authorities:
        return b""
    try:
        found = x509.load_pem_x509_certificates(authorities.encode())
    except ValueError:
        raise Refused("SecretUnusable", "`tls.caSecret` has no certificates in PEM") from None
    entries = [pkcs12.PKCS12Certificate(one, f"ca-{number}".encode()) for number, one in enumerate(found)]
    return pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(user_secret.TRUSTSTORE_PASSWORD.encode()))
