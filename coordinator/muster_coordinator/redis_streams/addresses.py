"""Addresses as Redis servers tell them of each other.

Problem: they come from the configuration of machines that are somebody else's, and what is told becomes a connection:
"?" is what a node says that does not know its name, and no name that one could connect to. What this does not do:
resolve anything.
"""

import re
from typing import Any

Address = tuple[str, int]
UNKNOWN = "?"
_HOST = re.compile(r"[A-Za-z0-9._:%-]{1,255}")
_PORT_MAX = 65_535


def text_of(value: Any) -> str:  # noqa: ANN401  # as it was answered
    """Of bytes, and of nothing else: `bytes` of a number is as many zeros. Raises ValueError."""
    if not isinstance(value, bytes):
        raise ValueError(f"a {type(value).__name__} where a text was expected")
    return value.decode()


def address_of(host: str, port: str | int) -> Address:
    """Raises ValueError if it is no name or IP address of a machine, or no port."""
    number = int(port)
    if not _HOST.fullmatch(host) or not 0 < number <= _PORT_MAX:
        raise ValueError(f"{host[:100]!r} with port {number} is no address")
    return host, number
