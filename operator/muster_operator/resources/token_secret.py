"""The Secret with the bearer token of the coordinators' admin API: its metadata only.

The executor draws the value once, when it writes the Secret; it never enters a plan, an Event or a log.
"""

from typing import TypedDict

from muster_operator.naming import COORDINATOR, TOKEN_KEY, labels, token_secret
from muster_operator.resources.owned import Manifest, owner_reference
from muster_operator.world.views import OwnerView


class SecretIntent(TypedDict):
    """The arguments of `plan.actions.EnsureSecret`."""

    name: str
    namespace: str
    key: str
    labels: dict[str, str]
    owner_reference: Manifest


def admin_token(owner: OwnerView) -> SecretIntent:
    return {
        "name": token_secret(owner.name),
        "namespace": owner.namespace,
        "key": TOKEN_KEY,
        "labels": labels(component=COORDINATOR, instance=owner.name),
        "owner_reference": owner_reference(owner, "CoordinatorCluster"),
    }
