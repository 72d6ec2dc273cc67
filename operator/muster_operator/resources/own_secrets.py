"""Secrets with a value that is drawn once: their metadata only, as the admin token's (`token_secret`)."""

from muster_operator.naming import COORDINATOR, PASSWORD_KEY, PEER_KEY, labels, operator_user, peer_secret
from muster_operator.resources.owned import owner_reference
from muster_operator.resources.token_secret import SecretIntent
from muster_operator.world.views import OwnerView


def of_peers(owner: OwnerView) -> SecretIntent:
    """By which coordinators know each other."""
    return _drawn(owner, peer_secret(owner.name), PEER_KEY)


def of_operator(owner: OwnerView) -> SecretIntent:
    """The password of the operator's own user."""
    return _drawn(owner, operator_user(owner.name), PASSWORD_KEY)


def _drawn(owner: OwnerView, name: str, key: str) -> SecretIntent:
    return {
        "name": name,
        "namespace": owner.namespace,
        "key": key,
        "labels": labels(component=COORDINATOR, instance=owner.name),
        "owner_reference": owner_reference(owner, "CoordinatorCluster"),
    }
