"""An address as Java writes it: hosts of ACLs and of quotas are compared as text, as Kafka compares them.

Java writes an IPv6 address with all its eight groups (`0:0:0:0:0:0:0:1`), and one that stands for an IPv4 address as
that. So an ACL for `::1` matches nobody, in Kafka and here.
"""

import ipaddress
from functools import lru_cache


def java_address(client_host: str) -> str:
    """InetAddress.getHostAddress of a client's host, which may begin with "/"."""
    host = client_host.removeprefix("/")
    return _of_ipv6(host) if ":" in host else host


@lru_cache(maxsize=4_096)
def _of_ipv6(host: str) -> str:
    text, scope, zone = host.partition("%")
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return host
    mapped = address.ipv4_mapped
    if mapped is not None:
        return str(mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":")) + scope + zone
