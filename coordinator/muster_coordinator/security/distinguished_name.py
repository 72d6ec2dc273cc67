"""The name of a certificate's subject as Kafka has it: RFC 2253 in the spelling of Java's `X500Principal.getName()`.

Java's spelling matters, because ACLs and mapping rules name it: the last relative name comes first; CN, C, L, ST, O,
OU, STREET, DC and UID have their keyword, every other attribute is its OID and its value's DER in hexadecimal; `=` and
`#` are escaped everywhere. It works on DER bytes, since the type of a value (a string or not) decides its form.

What it does not do: repeat what Java makes of BMPString and UniversalString (zero bytes; here they are text), check
a certificate, or parse a name that somebody wrote.
"""

from collections.abc import Iterator

from muster_coordinator.errors import WireError

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED = ',=+<>#;"\\'
_CHARSETS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""DER tag of a string type -> its encoding."""
_OID, _SEQUENCE, _SET = 0x06, 0x30, 0x31


def rfc2253(name: bytes) -> str:
    """The DER of a Name as text. Raises `WireError` if it is none."""
    try:
        tag, body, whole = next(_values(name))
        if tag != _SEQUENCE or len(whole) != len(name):
            raise WireError("a certificate's subject is no name")
        relative = ["+".join(_attribute(one) for _, one, _ in _values(part)) for _, part, _ in _values(body)]
    except (IndexError, StopIteration, UnicodeDecodeError) as error:
        raise WireError("a certificate's subject is no name") from error
    return ",".join(reversed(relative))


def _values(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """(tag, content, the whole value) of the DER values that stand one behind the other."""
    pos = 0
    while pos < len(data):
        begin, tag, length = pos, data[pos], data[pos + 1]
        pos += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[pos : pos + size], "big")
            pos += size
        if pos + length > len(data):
            raise IndexError
        yield tag, data[pos : pos + length], data[begin : pos + length]
        pos += length


def _attribute(sequence: bytes) -> str:
    (oid_tag, oid, _), (tag, value, whole) = list(_values(sequence))[:2]
    if oid_tag != _OID:
        raise IndexError
    dotted = _dotted(oid)
    keyword = _KEYWORDS.get(dotted)
    if keyword is None or tag not in _CHARSETS:
        return f"{keyword or dotted}=#{whole.hex()}"
    return f"{keyword}={_escape(value.decode(_CHARSETS[tag]))}"


def _dotted(oid: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in oid:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escape(text: str) -> str:
    shown = "".join("\\" + char if char in _ESCAPED else "\\00" if char == "\0" else char for char in text)
    lead = len(shown) - len(shown.lstrip(" \r"))
    trail = len(shown.rstrip(" \r")) if lead < len(shown) else lead
    return "\\".join(["", *shown[:lead]]) + shown[lead:trail] + "\\".join(["", *shown[trail:]])
