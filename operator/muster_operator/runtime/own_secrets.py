"""Changes Secrets that the operator made, and no others.

Invariant: a Secret is written only if it has our label, if the owner of the plan controls it, and in the very version
that was planned for. Its content is read and made here; it reaches no plan, no log and no message.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from muster_operator.errors import Conflict, Refused
from muster_operator.kube.kinds import SECRET
from muster_operator.kube.views import controller_uid
from muster_operator.naming import FIELD_MANAGER, MANAGED_BY_LABEL
from muster_operator.plan.actions import RotateSecret
from muster_operator.ports import Kube, Rand


class OwnSecrets:
    def __init__(self, kube: Kube, rand: Rand) -> None:
        self._kube = kube
        self._rand = rand

    async def rotate(self, action: RotateSecret, *, namespace: str, owner_uid: str) -> bool:
        """False: it is gone. Raises Conflict, Refused."""
        live = await self._kube.get(
            api_version=SECRET.api_version, kind=SECRET.kind, namespace=namespace, name=action.name
        )
        if live is None:
            return False
        check_ours(live, owner_uid)
        if live["metadata"].get("resourceVersion") != action.version:
            raise Conflict("SecretChanged", f"Secret {action.name} changed while it was to be rotated")
        before = value_of(live, action.key).split("\n")[0]
        lines = [self._rand.token(), before] if action.keep_old else [before]
        return await self._kube.patch(
            {
                "apiVersion": SECRET.api_version,
                "kind": SECRET.kind,
                "metadata": {
                    "name": action.name,
                    "namespace": namespace,
                    "uid": action.uid,
                    "resourceVersion": action.version,
                    "annotations": dict(action.annotations),
                },
                "data": {action.key: encoded("\n".join(lines))},
            }
        )


def check_ours(live: Mapping[str, Any], owner_uid: str) -> None:
    """Raises Refused for a Secret that somebody else made."""
    labels = live["metadata"].get("labels") or {}
    if labels.get(MANAGED_BY_LABEL) != FIELD_MANAGER or controller_uid(live) != owner_uid:
        name = live["metadata"]["name"]
        raise Refused("NameTaken", f"Secret {name} exists and belongs to another owner; rename it or remove it")


def value_of(live: Mapping[str, Any], key: str) -> str:
    """The text under `key`; "" if there is none. Raises Refused for what is no text."""
    try:
        return base64.b64decode((live.get("data") or {}).get(key) or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Refused("SecretUnreadable", f"Secret {live['metadata']['name']}: {key} is not text") from None


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
