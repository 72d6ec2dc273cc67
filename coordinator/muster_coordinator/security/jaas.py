"""The text of `sasl.jaas.config`: Java's way to say a login module and its options, as Kafka's configurations have it.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_a="b";

Only the name of the module and its options are read. Nothing is loaded by that name: it says which mechanism is meant.
An error never quotes the text, which holds passwords.
"""

import re
from typing import NamedTuple

from typing_extensions import override

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_FLAGS = ("required", "requisite", "sufficient", "optional")
_OPTION = re.compile(r"""\s*([A-Za-z0-9_.@-]+)\s*=\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s;"']+)""", re.DOTALL)
_HEAD = re.compile(r"\s*([A-Za-z0-9_.$]+)\s+([A-Za-z]+)(?=[\s;]|$)")


class Login(NamedTuple):
    """A login module and its options."""

    module: str
    options: dict[str, str]

    @override
    def __repr__(self) -> str:
        return f"Login({self.module})"


def parse_jaas(text: str) -> Login:
    """Raises ValueError that says what is wrong, and quotes nothing."""
    head = _HEAD.match(text)
    if head is None or head[2].lower() not in _FLAGS:
        raise ValueError('not a login module and "required", with its options')
    pos, options = head.end(), dict[str, str]()
    while match := _OPTION.match(text, pos):
        if match[1] in options:
            raise ValueError("an option is given twice")
        options[match[1]] = _bare(match[2])
        pos = match.end()
    if text[pos:].strip() != ";":
        raise ValueError('options are name="value", and a semicolon ends them')
    return Login(head[1], options)


def plain_users(text: str) -> dict[str, str]:
    """The users of a listener that offers PLAIN: name -> password. Raises ValueError as `parse_jaas`."""
    login = parse_jaas(text)
    if login.module != PLAIN_MODULE:
        raise ValueError(f"the login module is not {PLAIN_MODULE}")
    return {name.removeprefix("user_"): word for name, word in login.options.items() if name.startswith("user_")}


def _bare(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text[0] in "\"'" else text
