"""What keys, certificates and trust are once their files were read, and the error of files that are of no use.

Apart from the reading (`runtime.tls_files`), so that who only keeps them needs no library of certificates.
"""

from dataclasses import dataclass

from muster_coordinator.errors import EnvironmentFault
from muster_coordinator.security.certificates import Certificate


class TlsRefused(EnvironmentFault):
    """Files of keys or certificates cannot be used; the message names the file and the cure."""


@dataclass(frozen=True, slots=True, repr=False)
class Material:
    """What one set of files holds. No repr: it has the key."""

    chain: tuple[Certificate, ...] = ()
    key: bytes = b""
    """The private key's SubjectPublicKeyInfo; empty: no key is configured."""
    pem: bytes = b""
    """Key and chain, for OpenSSL."""
    trusted: tuple[Certificate, ...] = ()
    trusted_pem: str = ""
    where: str = ""
    """The files, for messages."""
