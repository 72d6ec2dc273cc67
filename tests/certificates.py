"""A certificate authority for tests: keys, certificates and stores in every form that a person may have."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID
from muster_coordinator.security.tls_config import ClientAuth, StoreType, TlsConfig

DAY = dt.timedelta(days=1)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def now() -> dt.datetime:
    return dt.datetime.fromtimestamp(int(dt.datetime.now(dt.UTC).timestamp()), dt.UTC)  # noqa: TID251


@dataclass
class Issued:
    """A certificate, its key and the chain behind it."""

    certificate: x509.Certificate
    key: Key
    chain: tuple[x509.Certificate, ...] = ()

    @property
    def pem(self) -> str:
        """The certificate and its intermediates."""
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in (self.certificate, *self.chain))

    def key_pem(self, form: PrivateFormat = PrivateFormat.PKCS8, password: str = "") -> str:
        how: KeySerializationEncryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, form, how).decode()

    def write(self, folder: Path, name: str = "tls") -> tuple[Path, Path]:
        """`tls.crt` and `tls.key`, as cert-manager names them."""
        folder.mkdir(parents=True, exist_ok=True)
        crt, key = folder / f"{name}.crt", folder / f"{name}.key"
        crt.write_text(self.pem)
        key.write_text(self.key_pem())
        return crt, key

    def pkcs12(self, password: str) -> bytes:
        how = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"it", self.key, self.certificate, self.chain, how)


class Authority:
    """A CA, its own or below another."""

    def __init__(self, name: str = "Test CA", above: "Authority | None" = None, *, rsa_bits: int = 0) -> None:
        self._rsa_bits = rsa_bits
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.above = above
        self.certificate = (above or self).issue_for(self.key, self.name, authority=True)

    def new_key(self) -> Key:
        if self._rsa_bits:
            return rsa.generate_private_key(public_exponent=65_537, key_size=self._rsa_bits)
        return ec.generate_private_key(ec.SECP256R1())

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def issue(
        self,
        common_name: str = "server",
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
        *,
        begins: dt.timedelta = -DAY,
        ends: dt.timedelta = 30 * DAY,
        subject: x509.Name | None = None,
    ) -> Issued:
        key = self.new_key()
        name = subject or x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        certificate = self.issue_for(key, name, hosts=hosts, begins=begins, ends=ends)
        return Issued(certificate, key, (self.certificate,) if self.above is not None else ())

    def issue_for(
        self,
        key: Key,
        name: x509.Name,
        *,
        hosts: tuple[str, ...] = (),
        authority: bool = False,
        begins: dt.timedelta = -DAY,
        ends: dt.timedelta = 365 * DAY,
    ) -> x509.Certificate:
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now() + begins)
            .not_valid_after(now() + ends)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if hosts:
            made = made.add_extension(
                x509.SubjectAlternativeName([general_name(host) for host in hosts]), critical=False
            )
        return made.sign(self.key, hashes.SHA256())


def general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def tls_config(**values: object) -> TlsConfig:
    """The defaults of the settings, but for these."""
    defaults: dict[str, object] = {
        "keystore_type": StoreType.PEM,
        "keystore_location": None,
        "keystore_chain": "",
        "keystore_key": "",
        "keystore_password": "",
        "key_password": "",
        "truststore_type": StoreType.PEM,
        "truststore_location": None,
        "truststore_certificates": "",
        "truststore_password": "",
        "client_auth": ClientAuth.NONE,
        "protocols": ("TLSv1.2", "TLSv1.3"),
        "cipher_suites": (),
        "principal_rules": "DEFAULT",
    }
    return TlsConfig(**{**defaults, **values})  # type: ignore[arg-type]
