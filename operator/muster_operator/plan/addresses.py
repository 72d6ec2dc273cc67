"""Compares the address that a member connects from with the addresses of a pod. Pure.

Only a pod's own addresses count. A node's address identifies no pod: all clients that come in through a NodePort or go
out through masquerading share it. (A pod on the host network has the node's address as its own, and shares it.)
"""

from ipaddress import IPv6Address, ip_address
from typing import Final

from muster_operator.world.group import MemberView
from muster_operator.world.views import PodView

OVER: Final = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod's address may already belong to another pod."""


def address(member: MemberView) -> str:
    """The member's address in normal form. Apache Kafka writes `/10.0.0.7`; a dual-stack socket `::ffff:…`."""
    return spelled(member.host.removeprefix("/"))


def spelled(host: str) -> str:
    try:
        found = ip_address(host)
    except ValueError:
        return host
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def is_at(pod: PodView, member: MemberView) -> bool:
    """The member connects from an address of this pod."""
    return address(member) in addresses_of(pod)


def addresses_of(pod: PodView) -> frozenset[str]:
    """The pod's own addresses, in the normal form of `address`."""
    return frozenset(spelled(one) for one in (pod.pod_ip, *pod.pod_ips) if one)
