"""Makes and reads certificates: the only module that knows the library `cryptography`.

Keys are EC P-256 in PKCS#8, which every client takes. A CA may sign certificates and nothing else, and no CA below it.
A certificate serves and dials, because the links between coordinators show one from both sides. Random numbers are the
operating system's, by the library; the time is handed in.

What it does not do: decide when something is made (`plan.certificates`), or touch a Secret.
"""

import datetime as dt
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster_operator.limits import CERTIFICATE_BACKDATE_MS, CERTIFICATE_BYTES_MAX, CERTIFICATES_MAX
from muster_operator.world.certificates import CertificateView

UNREADABLE = (ValueError, TypeError, KeyError, OverflowError, UnsupportedAlgorithm, x509.ExtensionNotFound)
"""What reading damaged or foreign bytes raises, by what is wrong with them."""
_SIGNING = (
    rsa.RSAPublicKey, dsa.DSAPublicKey, ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey, ed448.Ed448PublicKey
)  # fmt: skip


class Unreadable(Exception):
    """A PEM text cannot be used; the message says why, without its content."""


@dataclass(frozen=True, slots=True)
class Issued:
    certificate: str
    key: str = field(repr=False)


def new_authority(common_name: str, *, now_ms: int, days: int) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    builder = (
        _dated(name, name, key.public_key(), now_ms, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return Issued(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))


def new_certificate(
    authority: Issued, common_name: str, *, hosts: Iterable[str], addresses: Iterable[str], now_ms: int, days: int
) -> Issued:
    """Raises `Unreadable` if the CA cannot be used."""
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
    names += [x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return _issued(authority, _name(common_name), uses, names, now_ms, days)


def new_client_certificate(authority: Issued, subject: str, *, now_ms: int, days: int) -> Issued:
    """Of a user, who is named by the whole `subject` (RFC 4514): it dials and cannot serve. Raises `Unreadable`, also
    for a subject that coordinators would read as another one."""
    try:
        name = x509.Name.from_rfc4514_string(subject)
    except UNREADABLE:
        name = x509.Name([])
    if not subject or name.rfc4514_string() != subject:
        raise Unreadable(f"{subject!r} is no subject of a certificate, such as CN=orders,O=Example (CN: 64 characters)")
    return _issued(authority, name, [ExtendedKeyUsageOID.CLIENT_AUTH], [], now_ms, days)


def key_store(own: Issued, password: str) -> bytes:
    """PKCS#12 with key and certificate, as Java loads it. Raises `Unreadable`."""
    try:
        certificate = x509.load_pem_x509_certificate(own.certificate.encode())
        key = load_pem_private_key(own.key.encode(), None)
    except UNREADABLE:
        raise Unreadable("certificate or key cannot be read") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Unreadable("the key is none of the operator's")
    return pkcs12.serialize_key_and_certificates(
        b"user", key, certificate, None, BestAvailableEncryption(password.encode())
    )


def _issued(
    authority: Issued,
    subject: x509.Name,
    uses: list[x509.ObjectIdentifier],
    names: list[x509.GeneralName],
    now_ms: int,
    days: int,
) -> Issued:
    try:
        ca = x509.load_pem_x509_certificate(authority.certificate.encode())
        ca_key = load_pem_private_key(authority.key.encode(), None)
        issuer_id = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except UNREADABLE:
        raise Unreadable("the CA's certificate or key cannot be read") from None
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey) or ca_key.public_key() != ca.public_key():
        raise Unreadable("the CA's key is not that of its certificate")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _dated(subject, ca.subject, key.public_key(), now_ms, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Issued(_pem(builder.sign(ca_key, hashes.SHA256())), _key_pem(key))


def read_certificates(pem: str) -> tuple[CertificateView, ...]:
    """Of a PEM text, in its order. Raises `Unreadable`."""
    if len(pem) > CERTIFICATE_BYTES_MAX or pem.count("-----BEGIN CERTIFICATE") > CERTIFICATES_MAX:
        raise Unreadable(f"it is longer than {CERTIFICATE_BYTES_MAX} bytes or {CERTIFICATES_MAX} certificates")
    try:
        return tuple(_view(one) for one in x509.load_pem_x509_certificates(pem.encode()))
    except UNREADABLE:
        raise Unreadable("it is no certificate in PEM") from None


def key_id_of(key_pem: str) -> str:
    """The key id that a certificate for this private key has. Raises `Unreadable`."""
    if len(key_pem) > CERTIFICATE_BYTES_MAX:
        raise Unreadable(f"it is longer than {CERTIFICATE_BYTES_MAX} bytes")
    try:
        return _key_id(load_pem_private_key(key_pem.encode(), None).public_key())
    except UNREADABLE:
        raise Unreadable("it is no private key in PEM, or it is encrypted, which a Secret's need not be") from None


def _view(found: x509.Certificate) -> CertificateView:
    """Key ids are computed here, as certificates of others need not carry them; whose issuer says none has ""."""
    names: set[str] = set()
    for extension in found.extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            names |= {one.lower() for one in extension.value.get_values_for_type(x509.DNSName)}
            names |= {str(one) for one in extension.value.get_values_for_type(x509.IPAddress)}
    return CertificateView(
        key_id=_key_id(found.public_key()),
        issuer_key_id=_issuer_key_id(found),
        not_before_ms=int(found.not_valid_before_utc.timestamp() * 1000),
        not_after_ms=int(found.not_valid_after_utc.timestamp() * 1000),
        names=frozenset(names),
    )


def _issuer_key_id(found: x509.Certificate) -> str:
    for extension in found.extensions:
        if isinstance(extension.value, x509.AuthorityKeyIdentifier) and extension.value.key_identifier:
            return extension.value.key_identifier.hex()
    return ""


def _key_id(public: CertificatePublicKeyTypes | PublicKeyTypes) -> str:
    """RFC 5280 4.2.1.2 (1). Raises TypeError for a key that signs nothing."""
    if not isinstance(public, _SIGNING):
        raise TypeError("a key of this kind signs nothing")
    return x509.SubjectKeyIdentifier.from_public_key(public).digest.hex()


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _dated(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now_ms: int, days: int
) -> x509.CertificateBuilder:
    begin = dt.datetime.fromtimestamp((now_ms - CERTIFICATE_BACKDATE_MS) // 1_000, dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=key_cert_sign, crl_sign=crl_sign,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
