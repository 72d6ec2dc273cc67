"""Names and rules of which Java and Kafka say what they become: the cases of two tests."""

from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier

CN, O, OU = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME  # noqa: E741


def name(*attributes: tuple[ObjectIdentifier, str], together: int = 0) -> bytes:
    """DER; the last `together` attributes are one relative name of several values."""
    parts = [x509.NameAttribute(oid, text) for oid, text in attributes]
    single = [x509.RelativeDistinguishedName([one]) for one in parts[: len(parts) - together]]
    joined = [x509.RelativeDistinguishedName(parts[-together:])] if together else []
    return x509.Name([*single, *joined]).public_bytes()


def typed(kind: _ASN1Type, text: str) -> bytes:
    return x509.Name([x509.NameAttribute(CN, text, _type=kind)]).public_bytes()


NAMES = {
    "CN=kafka.example,OU=Test,O=Some\\, Company,L=Berlin,ST=BE,C=DE": name(
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.STATE_OR_PROVINCE_NAME, "BE"),
        (NameOID.LOCALITY_NAME, "Berlin"),
        (O, "Some, Company"),
        (OU, "Test"),
        (CN, "kafka.example"),
    ),
    "UID=u,DC=org,DC=example,STREET=Way 1": name(
        (NameOID.STREET_ADDRESS, "Way 1"),
        (NameOID.DOMAIN_COMPONENT, "example"),
        (NameOID.DOMAIN_COMPONENT, "org"),
        (NameOID.USER_ID, "u"),
    ),
    "1.2.840.113549.1.9.1=#1603614062,2.5.4.5=#130137,CN=x": name(
        (CN, "x"), (NameOID.SERIAL_NUMBER, "7"), (NameOID.EMAIL_ADDRESS, "a@b")
    ),
    "CN=a+OU=b,O=c": name((O, "c"), (CN, "a"), (OU, "b"), together=2),
    'CN=\\,\\=\\+\\<\\>\\#\\;\\"\\\\': name((CN, ',=+<>#;"\\')),
    "CN=\\ \\ two\\ \\ ": name((CN, "  two  ")),
    "CN=\\ ": name((CN, " ")),
    "CN=Zoë 中 \N{GRINNING FACE}": name((CN, "Zoë 中 \N{GRINNING FACE}")),
    "CN=a\\00b": name((CN, "a\0b")),
    "CN=printable": typed(_ASN1Type.PrintableString, "printable"),
    "CN=ia5": typed(_ASN1Type.IA5String, "ia5"),
    "": name(),
    "CN=" + "x" * 64 + ("," + "OU=" + "y" * 64) * 32: name(*[(OU, "y" * 64)] * 32, (CN, "x" * 64)),
}
"""What Java calls it -> its DER."""

NOBODY, INVALID = "!nobody", "!invalid"
DN = "CN=kafka.example,OU=ServiceUsers,O=Org,C=DE"
MAPPINGS = [
    ("DEFAULT", DN, DN),
    ("", DN, NOBODY),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DN, "kafka.example"),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "CN=Duke,OU=ServiceUsers,C=DE", "duke"),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U", "CN=Duke,OU=ServiceUsers,C=DE", "DUKE"),
    ("RULE:^CN=(.*?), *OU=(.*?), *O=(.*?), *C=([A-Z]+)$/$1@$2-$4/L, DEFAULT", DN, "kafka.example@serviceusers-de"),
    (" RULE:^CN=a.*$/first/ , RULE:^CN=(.*)$/second-$1/ ,DEFAULT", "CN=b", "second-b"),
    ("RULE:^CN=a$/first/,DEFAULT", "CN=ab", "CN=ab"),
    ("RULE:^CN=a$/first/", "CN=b", NOBODY),
    ("RULE:^.*CN=(.*?)(,.*)?$/$1/", "OU=x,CN=last", "last"),
    ("RULE:CN=([^,ADEFLTU,]+)(,.*|$)/$1/", "CN=gym,C=x", "gym"),
    ("RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/L,RULE:^CN=([^,]+)$/$1/U", "CN=default", "default"),
    ("RULE:^CN=(.*)\\/(.*)$/$2\\/$1/", "CN=host/realm", "realm/host"),
    ("RULE:^CN=(.*)$/$1$2/", "CN=x", "x$2"),
    ("RULE:^CN=(.*)$/$12/", "CN=x", "x2"),
    ("RULE:^CN=(.*)$/\\$1/", "CN=x", "$1"),
    ("RULE:.*/x/", "CN=b", "xx"),
    ("default", DN, INVALID),
    ("DEFAUL", DN, INVALID),
    ("DEFAULT/L", DN, INVALID),
    ("DEFAULT/U", DN, INVALID),
    ("RULE:CN=(.*?),OU=ServiceUsers.*/$1", DN, INVALID),
    ("rule:^CN=(.*?),OU=ServiceUsers.*$/$1/", DN, INVALID),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U", DN, INVALID),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/L", DN, INVALID),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/LU", DN, INVALID),
    ("RULE:^CN=((.*$/$1/", DN, INVALID),
]
"""(rules, name, user)"""
