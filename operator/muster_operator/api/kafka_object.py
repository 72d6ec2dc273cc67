"""What `Topic` and `User` share: the cluster in which something of Kafka's is kept as specified, and what becomes of it
in the end."""

from typing import Final

from muster_operator.api.client_access import access_rule
from muster_operator.api.schema import Rule, Text, choice

COMPARED_ADDRESSES_MAX: Final = 16

BOOTSTRAP: Final = Text(
    max_length=2000,
    min_length=3,
    pattern=r"^[^\s,:]+:[0-9]{1,5}(,[^\s,:]+:[0-9]{1,5})*$",
    pattern_text="must be host:port, several with commas between them",
)
RETAIN: Final = "Retain"
DELETE: Final = "Delete"
POLICY: Final = choice(RETAIN, DELETE)

CLUSTER_RULES: Final = (
    Rule(
        cel="has(self.clusterRef) != has(self.bootstrapServers)",
        message="exactly one of `clusterRef` and `bootstrapServers` must be set",
        holds=lambda spec: (spec.cluster_ref is None) != (spec.bootstrap_servers is None),
    ),
    Rule(
        cel="has(self.clusterRef) == has(oldSelf.clusterRef)"
        " && (!has(self.clusterRef) || self.clusterRef.name == oldSelf.clusterRef.name)",
        message="`clusterRef` may not change: what was made there would be left behind",
        holds=None,
    ),
    Rule(
        cel="!has(self.bootstrapServers) || !has(oldSelf.bootstrapServers)"
        f" || self.bootstrapServers.split(',', {COMPARED_ADDRESSES_MAX}).exists(address,"
        f" address in oldSelf.bootstrapServers.split(',', {COMPARED_ADDRESSES_MAX}))",
        message="`bootstrapServers` must keep one of its addresses: what was made there would be left behind",
        holds=None,
    ),
    access_rule("login", lambda spec: spec.login),
)


def fixed(field: str, text: str) -> Rule:
    """A field that may be absent, and is the same for ever."""
    return Rule(
        cel=f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        message=f"`{field}` may not change: {text}",
        holds=None,
    )
