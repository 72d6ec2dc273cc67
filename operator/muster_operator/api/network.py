"""`spec.networkPolicy` of a CoordinatorCluster: who may connect to its client ports."""

# a field is a call with its shape and text

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster_operator.api.fields import Struct, prop, spec_field
from muster_operator.api.pod import LABEL_SELECTOR
from muster_operator.api.schema import Boolean, ListOf, Rule, Text

_CIDR = Text(
    max_length=43,
    min_length=1,
    pattern=r"^[0-9a-fA-F.:]+/[0-9]{1,3}$",
    pattern_text="must be a CIDR such as 10.0.0.0/8",
)
PEER: Final = Struct(
    (
        prop("podSelector", LABEL_SELECTOR, "Pods with these labels; {} is every pod."),
        prop("namespaceSelector", LABEL_SELECTOR, "In namespaces with these labels; absent: this namespace."),
        prop(
            "ipBlock",
            Struct((
                prop("cidr", _CIDR, "Addresses such as 10.0.0.0/8.", required=True),
                prop("except", ListOf(items=_CIDR, max_items=20), "Parts of it that are excluded."),
            )),
            "Addresses, inside or outside of the cluster.",
        ),
    ),
    rules=(
        Rule(
            cel="has(self.ipBlock) != (has(self.podSelector) || has(self.namespaceSelector))",
            message="a client must be either an `ipBlock` or a `podSelector` and/or `namespaceSelector`",
            holds=lambda peer: ("ipBlock" in peer) != ("podSelector" in peer or "namespaceSelector" in peer),
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicySpec:
    enabled: bool = spec_field(
        Boolean(),
        "Whether the operator creates a NetworkPolicy. Peers and the operator may always connect.",
        default=True,
    )
    clients: tuple[Mapping[str, Any], ...] = spec_field(
        ListOf(items=PEER, max_items=50),
        "Who may connect to the client ports. Empty: all. Pods of this namespace's ConsumerGroups always may.",
        default=[],
    )
