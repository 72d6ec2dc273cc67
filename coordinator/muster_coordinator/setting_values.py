"""Values of the settings file: what a text says, or a `ValueError` that says what is wrong with it.

What it does not do: know keys or defaults (`settings`), or relations between values.
"""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from muster_coordinator.controller.limits import RACK_CHARS_MAX
from muster_coordinator.controller.moves import VOTER_COUNTS
from muster_coordinator.ids import BrokerId
from muster_coordinator.security.limits import SUPER_USERS_MAX
from muster_coordinator.security.protocol import SecurityProtocol

Parser = Callable[[str], Any]
WILDCARDS = ("0.0.0.0", "::")
"""Addresses to listen on, and not to be told to anybody."""
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{22}")


class Listener(NamedTuple):
    """A named address. The host of a bind address may be 0.0.0.0 or ::."""

    name: str
    host: str
    port: int


def integer(low: int, high: int = 2**63 - 1) -> Parser:
    def parse(text: str) -> int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError("not a whole number")
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"not between {low} and {high}")
        return value

    return parse


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text.lower() == "true"


def parse_cluster_id(text: str) -> str:
    if not _CLUSTER_ID.fullmatch(text):
        raise ValueError("not 22 characters of url-safe base64")
    return text


def one_of(*names: str) -> Parser:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"not one of {', '.join(names)}")
        return text

    return parse


def parse_rack(text: str) -> str:
    if len(text) > RACK_CHARS_MAX:
        raise ValueError(f"longer than {RACK_CHARS_MAX} characters")
    return text


def principals(text: str) -> frozenset[str]:
    found = frozenset(one.strip() for one in text.split(";") if one.strip())
    for one in found:
        if ":" not in one:
            raise ValueError(f"{one} is no principal such as User:{one}")
    if len(found) > SUPER_USERS_MAX:
        raise ValueError(f"more than {SUPER_USERS_MAX}")
    return found


def address_counts(text: str) -> dict[str, int]:
    """`IP:number,...`; the number is behind the last colon."""
    found: dict[str, int] = {}
    for part in filter(None, (item.strip() for item in text.split(","))):
        host, _, number = part.rpartition(":")
        try:
            address = str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]")))
        except ValueError:
            raise ValueError(f"{part!r} is not IP:number") from None
        if address in found:
            raise ValueError(f"{address} comes twice")
        found[address] = integer(0, 2**31 - 1)(number)
    return found


def replica_count(text: str) -> int:
    if text not in map(str, VOTER_COUNTS):
        raise ValueError("not 1, 3 or 5")
    return int(text)


def folder(text: str) -> Path:
    if not text:
        raise ValueError("empty")
    if "," in text:
        raise ValueError("one folder only")
    return Path(text)


def parse_address(text: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`; an empty host is loopback (decision 28). Raises `ValueError`."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"{text!r} is not host:port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: write an IPv6 address in brackets")
    return host or "127.0.0.1", int(port)


def format_address(host: str, port: int) -> str:
    """The inverse of `parse_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def parse_listeners(text: str) -> tuple[Listener, ...]:
    found: list[Listener] = []
    for part in filter(None, (item.strip() for item in text.split(","))):
        name, separator, address = part.partition("://")
        if not separator or not name.replace("_", "").replace("-", "").isalnum():
            raise ValueError(f"{part!r} is not NAME://host:port")
        found.append(Listener(name.upper(), *parse_address(address)))
    if len({listener.name for listener in found}) != len(found):
        raise ValueError("a listener name comes twice")
    return tuple(found)


def some_listeners(text: str) -> tuple[Listener, ...]:
    found = parse_listeners(text)
    if not found:
        raise ValueError("no listener")
    return found


def security_protocols(text: str) -> dict[str, SecurityProtocol]:
    found: dict[str, SecurityProtocol] = {}
    for part in filter(None, (item.strip() for item in text.split(","))):
        name, separator, protocol = part.partition(":")
        if not separator:
            raise ValueError(f"{part!r} is not NAME:PROTOCOL")
        if protocol.upper() not in SecurityProtocol.__members__:
            raise ValueError(f"{protocol} is none of {', '.join(SecurityProtocol.__members__)}")
        found[name.strip().upper()] = SecurityProtocol[protocol.upper()]
    return found


def quorum_voters(text: str) -> tuple[tuple[BrokerId, str, int], ...]:
    found: list[tuple[BrokerId, str, int]] = []
    for part in filter(None, (item.strip() for item in text.split(","))):
        node, separator, address = part.partition("@")
        if not separator or not node.isascii() or not node.isdigit():
            raise ValueError(f"{part!r} is not id@host:port")
        found.append((BrokerId(int(node)), *parse_address(address)))
    if len({voter[0] for voter in found}) != len(found):
        raise ValueError("an id comes twice")
    if len(found) not in (0, 1, 3, 5):
        raise ValueError("there must be 1, 3 or 5 voters")
    return tuple(found)


def optional(parse: Parser) -> Parser:
    return lambda text: parse(text) if text else None
