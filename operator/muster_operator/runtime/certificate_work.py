"""Carries out what `plan.certificates` wants: CAs, what is trusted of them, and certificates, in Secrets of ours.

The content of a CA's Secret: `tls.crt` and `tls.key` issue; `next.crt` and `next.key` are a successor that is trusted
already; `previous.crt` is trusted still. Each change is made from the version that was planned for and written under
it, so two operators, or an operator and a person, never lose each other's key.
"""

from collections.abc import Mapping
from typing import Any

from muster_operator import naming
from muster_operator.errors import Conflict, Refused
from muster_operator.kube.kinds import SECRET
from muster_operator.plan.actions import ChangeAuthority, IssueCertificate, NewSecret, PublishTrust
from muster_operator.ports import Clock, Kube
from muster_operator.runtime.observe_certificates import AUTHORITY_KEYS, NEXT_KEYS, PREVIOUS_KEY
from muster_operator.runtime.own_secrets import check_ours, encoded, value_of
from muster_operator.runtime.x509 import Issued, Unreadable, new_authority, new_certificate

Content = dict[str, str | None]
"""Key → text; None: the key goes."""


class CertificateWork:
    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock

    async def change_authority(self, action: ChangeAuthority, *, owner_uid: str) -> bool:
        """Raises Conflict, Refused, Transient, as all here."""
        if action.step == "create":
            made = self._authority(action)
            return await self._write(action.secret, "", _issuing(made), asked=action.rotated_for)
        live = await self._ours(action.secret.name, action.secret.namespace, owner_uid)
        content: Content
        if action.step == "next":
            made = self._authority(action)
            content = {NEXT_KEYS[0]: made.certificate, NEXT_KEYS[1]: made.key}
        elif action.step == "promote":
            content = {
                **_issuing(Issued(value_of(live, NEXT_KEYS[0]), value_of(live, NEXT_KEYS[1]))),
                PREVIOUS_KEY: value_of(live, AUTHORITY_KEYS[0]),
                NEXT_KEYS[0]: None,
                NEXT_KEYS[1]: None,
            }
        else:
            content = {PREVIOUS_KEY: None}
        return await self._write(action.secret, action.version, content, asked=action.rotated_for)

    async def publish_trust(self, action: PublishTrust, *, owner_uid: str) -> bool:
        live = await self._ours(action.authority, action.secret.namespace, owner_uid)
        held = [value_of(live, key) for key in (AUTHORITY_KEYS[0], NEXT_KEYS[0], PREVIOUS_KEY)]
        return await self._write(action.secret, action.version, {naming.CA_KEY: "".join(held)})

    async def issue(self, action: IssueCertificate, *, owner_uid: str) -> bool:
        live = await self._ours(action.authority, action.secret.namespace, owner_uid)
        try:
            made = new_certificate(
                Issued(value_of(live, AUTHORITY_KEYS[0]), value_of(live, AUTHORITY_KEYS[1])), action.common_name,
                hosts=action.hosts, addresses=action.addresses, now_ms=self._clock.wall_ms(), days=action.days,
            )  # fmt: skip
        except Unreadable as error:
            raise Refused("SecretUnusable", f"Secret {action.authority}: {error}") from None
        return await self._write(action.secret, action.version, _issuing(made))

    def _authority(self, action: ChangeAuthority) -> Issued:
        return new_authority(action.common_name, now_ms=self._clock.wall_ms(), days=action.days)

    async def _ours(self, name: str, namespace: str, owner_uid: str) -> Mapping[str, Any]:
        live = await self._kube.get(api_version=SECRET.api_version, kind=SECRET.kind, namespace=namespace, name=name)
        if live is None:
            raise Conflict("SecretGone", f"Secret {name} was deleted while it was being used")
        check_ours(live, owner_uid)
        return live

    async def _write(self, secret: NewSecret, version: str, content: Content, *, asked: str | None = None) -> bool:
        metadata: dict[str, Any] = {"name": secret.name, "namespace": secret.namespace}
        if asked is not None:
            metadata["annotations"] = {naming.ROTATE_CA_ANNOTATION: asked}
        body: dict[str, Any] = {"apiVersion": SECRET.api_version, "kind": SECRET.kind, "metadata": metadata}
        if not version:
            metadata["labels"] = dict(secret.labels)
            metadata["ownerReferences"] = [dict(secret.owner_reference)]
            texts = {key: text for key, text in content.items() if text is not None}
            return await self._kube.create({**body, "type": "Opaque", "stringData": texts})
        metadata["resourceVersion"] = version
        data = {key: None if text is None else encoded(text) for key, text in content.items()}
        return await self._kube.patch({**body, "data": data})


def _issuing(made: Issued) -> Content:
    return {AUTHORITY_KEYS[0]: made.certificate, AUTHORITY_KEYS[1]: made.key}
