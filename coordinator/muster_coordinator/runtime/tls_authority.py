"""The certificate authority of a `muster dev --secure` folder, the certificate of its replicas, and Java's truststore.

One key and certificate serve all replicas of the folder, since all of them are 127.0.0.1; it names both uses, because
replicas are clients of each other. It is issued anew at a start when it does not last much longer; clients trust the
CA and notice nothing. What this does not do: anything for a machine other than this one.
"""

import datetime as dt
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_DAYS, SERVER_DAYS, RENEWED_BEFORE_DAYS = 3_650, 397, 30
"""Some clients refuse certificates of servers that last longer than 397 days."""
BACKDATED = dt.timedelta(hours=1)
"""Clocks of containers on one machine differ by less."""
NAMES = ("localhost",)
ADDRESSES = ("127.0.0.1", "::1")


class Authority:
    """A CA: its certificate and its key."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = certificate
        self._key = key

    @classmethod
    def new(cls, now: dt.datetime) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "muster dev CA")])
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        made = _begun(name, name, key.public_key(), key.public_key(), now, CA_DAYS)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return cls(made.add_extension(usage, critical=True).sign(key, hashes.SHA256()), key)

    @classmethod
    def read(cls, certificate: bytes, key: bytes) -> "Authority":
        """Raises ValueError."""
        found = load_pem_private_key(key, None)
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise ValueError("the CA's key is not of the kind that muster dev makes")
        return cls(x509.load_pem_x509_certificate(certificate), found)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return _pem(self._key)

    def issue(self, now: dt.datetime) -> tuple[bytes, bytes]:
        """(certificate, key) of the replicas, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "muster dev")])
        made = _begun(name, self.certificate.subject, key.public_key(), self._key.public_key(), now, SERVER_DAYS)
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        made = made.add_extension(uses, critical=False)
        hosts = [*map(x509.DNSName, NAMES), *(x509.IPAddress(ipaddress.ip_address(one)) for one in ADDRESSES)]
        made = made.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        return made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM), _pem(key)

    def truststore(self, password: str) -> bytes:
        """PKCS#12 that Java takes as a truststore: it looks for an attribute that other stores lack."""
        entry = pkcs12.PKCS12Certificate(self.certificate, b"muster-dev-ca")
        return pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(password.encode()))


def lasts(certificate: bytes, now: dt.datetime) -> bool:
    """Does it last for a while from now on? Raises ValueError."""
    ends = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    return ends - now > dt.timedelta(days=RENEWED_BEFORE_DAYS)


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    now: dt.datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
