"""Reads keys, certificates and trust in the forms that people have: PEM in one file or several, PKCS#12, encrypted.

Everything becomes the same values: a chain and a key as PEM that OpenSSL takes, trusted certificates, and what
`security.certificates` judges. A file that is of no use is refused with its path and the cure; a Java keystore with the
`keytool` line that converts it. The text of a key never gets into an error.

What it does not do: watch files (`runtime.tls_store`), or keep what it has read. Whoever needs it in a replica imports
it where it is needed: `cryptography` is a tenth of a start, and a replica without TLS reads no certificate.
"""

from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    pkcs12,
)

from muster_coordinator.errors import WireError
from muster_coordinator.limits import MIB
from muster_coordinator.runtime.tls_material import Material, TlsRefused
from muster_coordinator.security.certificates import Certificate
from muster_coordinator.security.distinguished_name import rfc2253
from muster_coordinator.security.tls_config import StoreType, TlsConfig

FILE_BYTES_MAX = MIB
"""Of one file of certificates: the trust of a whole distribution has 220 kB."""
_JKS = b"\xfe\xed\xfe\xed"
_JCEKS = b"\xce\xce\xce\xce"
_BEGIN = "-----BEGIN"
_UNREADABLE = (ValueError, TypeError, KeyError, OverflowError, UnsupportedAlgorithm, WireError)
"""What reading a damaged certificate raises, by what is damaged."""
_Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey


def read_bytes(path: Path) -> bytes:
    """A file's content. Raises `TlsRefused`."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise TlsRefused(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > FILE_BYTES_MAX:
        raise TlsRefused(f"{path}: larger than {FILE_BYTES_MAX} bytes, so it is no file of certificates")
    if data[:4] in (_JKS, _JCEKS):
        raise TlsRefused(
            f"{path}: a Java keystore is not supported; convert it: keytool -importkeystore -srckeystore {path} "
            f"-destkeystore {path.with_suffix('.p12')} -deststoretype PKCS12"
        )
    return data


def files_of(config: TlsConfig) -> tuple[Path, ...]:
    """All files that a configuration names."""
    texts = (config.keystore_chain, config.keystore_key, config.truststore_certificates)
    paths = [path for path in (config.keystore_location, config.truststore_location) if path is not None]
    return (*paths, *(Path(text) for text in texts if text and _BEGIN not in text))


def read_material(config: TlsConfig) -> Material:
    """Blocking. Raises `TlsRefused`."""
    try:
        return _read(config)
    except _UNREADABLE as error:
        where = ", ".join(map(str, files_of(config))) or "the configuration"
        raise TlsRefused(f"{where}: a certificate in it cannot be read: write it anew ({error})") from error


def _read(config: TlsConfig) -> Material:
    found = _read_keystore(config)
    trusted, trusted_pem = _read_truststore(config)
    if found is None:
        return Material(trusted=trusted, trusted_pem=trusted_pem, where="the truststore")
    where, key, certificates = found
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Material(
        chain=tuple(map(_certificate, certificates)),
        key=key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        pem=pem + b"".join(one.public_bytes(Encoding.PEM) for one in certificates),
        trusted=trusted,
        trusted_pem=trusted_pem,
        where=where,
    )


def subject_of(der: bytes) -> str:
    """The subject of a peer's certificate, in Java's spelling. Raises `WireError`."""
    try:
        return rfc2253(x509.load_der_x509_certificate(der).subject.public_bytes())
    except _UNREADABLE as error:
        raise WireError(f"the certificate cannot be read: {error}") from error


def hosts_of(der: bytes) -> tuple[str, ...]:
    """DNS names and addresses of a peer's certificate. Raises `WireError`."""
    try:
        return _certificate(x509.load_der_x509_certificate(der)).hosts
    except _UNREADABLE as error:
        raise WireError(f"the certificate cannot be read: {error}") from error


def _text_or_file(value: str) -> tuple[str, bytes]:
    """(what to call it, its PEM): Kafka has PEM text in these keys; a path is ours, for Secrets as cert-manager has
    them."""
    if _BEGIN in value:
        return "the configuration", value.encode()
    return value, read_bytes(Path(value))


def _read_keystore(config: TlsConfig) -> tuple[str, _Key, Sequence[x509.Certificate]] | None:
    if not config.has_key:
        return None
    if config.keystore_location is None:
        chain_where, chain = _text_or_file(config.keystore_chain)
        key_where, key = _text_or_file(config.keystore_key)
        where = chain_where if chain_where == key_where else f"{chain_where} and {key_where}"
        return where, _pem_key(key_where, key, config.key_password), _pem_certificates(chain_where, chain)
    path = config.keystore_location
    data = read_bytes(path)
    if config.keystore_type is StoreType.PEM:
        return str(path), _pem_key(str(path), data, config.key_password), _pem_certificates(str(path), data)
    return _read_pkcs12_key(path, data, config.keystore_password)


def _pkcs12(path: Path, data: bytes, password: str, key: str) -> pkcs12.PKCS12KeyAndCertificates:
    if _BEGIN.encode() in data:
        raise TlsRefused(f"{path}: this is PEM: set {key.replace('password', 'type')}=PEM")
    try:
        return pkcs12.load_pkcs12(data, password.encode() or None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise TlsRefused(f"{path}: cannot be read as PKCS#12: look at {key}, or make it anew ({error})") from error


def _read_pkcs12_key(path: Path, data: bytes, password: str) -> tuple[str, _Key, Sequence[x509.Certificate]]:
    store = _pkcs12(path, data, password, "ssl.keystore.password")
    if store.key is None or store.cert is None:
        raise TlsRefused(f"{path}: holds no private key with its certificate: export both into it")
    if not isinstance(store.key, _Key):
        raise TlsRefused(f"{path}: a key of this kind is not supported: make an RSA or EC key")
    # A PKCS#12 store is a set: the chain's order is found by its names.
    chain, others = [store.cert.certificate], [one.certificate for one in store.additional_certs]
    while after := next((one for one in others if one.subject == chain[-1].issuer), None):
        others.remove(after)
        chain.append(after)
    return str(path), store.key, chain


def _pem_key(where: str, data: bytes, password: str) -> _Key:
    secret = password.encode() or None
    # Of a file that holds the chain as well, the key's block; its own headers (PKCS#1's encryption) belong to it.
    blocks = [block for block in _blocks(data) if b"PRIVATE KEY-----" in block.partition(b"\n")[0]]
    if len(blocks) != 1:
        what = "no private key" if not blocks else f"{len(blocks)} private keys"
        raise TlsRefused(f"{where}: {what} in it: put one there, as PEM (-----BEGIN PRIVATE KEY-----)")
    encrypted = b"ENCRYPTED" in blocks[0]
    if encrypted and secret is None:
        raise TlsRefused(f"{where}: the private key is encrypted: set ssl.key.password")
    try:
        key = load_pem_private_key(blocks[0], secret if encrypted else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        cure = "ssl.key.password is wrong, or the file is damaged" if encrypted else "make it anew"
        raise TlsRefused(f"{where}: the private key cannot be read: {cure}") from error
    if not isinstance(key, _Key):
        raise TlsRefused(f"{where}: a key of this kind is not supported: make an RSA or EC key")
    return key


def _blocks(data: bytes) -> list[bytes]:
    return [_BEGIN.encode() + part for part in data.split(_BEGIN.encode())[1:]]


def _pem_certificates(where: str, data: bytes) -> list[x509.Certificate]:
    blocks = [block for block in _blocks(data) if block.startswith(b"-----BEGIN CERTIFICATE-----")]
    if not blocks:
        raise TlsRefused(f"{where}: no certificate in it: put some there, as PEM (-----BEGIN CERTIFICATE-----)")
    try:
        return x509.load_pem_x509_certificates(b"".join(blocks))
    except ValueError as error:
        raise TlsRefused(f"{where}: a certificate in it cannot be read: write the file anew ({error})") from error


def _read_truststore(config: TlsConfig) -> tuple[tuple[Certificate, ...], str]:
    path = config.truststore_location
    if config.truststore_certificates:
        where, data = _text_or_file(config.truststore_certificates)
        found = _pem_certificates(where, data)
    elif path is None:
        return (), ""
    elif config.truststore_type is StoreType.PEM:
        found = _pem_certificates(str(path), read_bytes(path))
    else:
        store = _pkcs12(path, read_bytes(path), config.truststore_password, "ssl.truststore.password")
        found = [one.certificate for one in store.additional_certs]
        if not found:
            raise TlsRefused(f"{path}: no certificate in it: import the CA's there")
    return tuple(map(_certificate, found)), "".join(one.public_bytes(Encoding.PEM).decode() for one in found)


def _certificate(found: x509.Certificate) -> Certificate:
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = (*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress)))
    except x509.ExtensionNotFound:
        hosts = ()
    subject = found.subject.public_bytes()
    return Certificate(
        subject=subject,
        issuer=found.issuer.public_bytes(),
        key=found.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        not_before_s=int(found.not_valid_before_utc.timestamp()),
        not_after_s=int(found.not_valid_after_utc.timestamp()),
        hosts=hosts,
        key_id=_key_id(found),
        issuer_key_id=_issuer_key_id(found),
        shown=rfc2253(subject) or "(no subject)",
    )


def _key_id(found: x509.Certificate) -> bytes | None:
    try:
        return found.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    except x509.ExtensionNotFound:
        return None


def _issuer_key_id(found: x509.Certificate) -> bytes | None:
    try:
        return found.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    except x509.ExtensionNotFound:
        return None
