"""Certificate and key of the measured servers' listeners with TLS: the same kind for both sides, made for each run."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.certificates import Authority

TLS_LISTENER = "ENCRYPTED"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of a server whose certificate (EC, P-256) is for 127.0.0.1; its own CA signed it."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "TlsFiles":
        made = cls(folder)
        authority = Authority()
        authority.issue("bench", ("127.0.0.1",)).write(folder)
        made.ca.write_text(authority.pem)
        made.both.write_text(made.key.read_text() + made.certificate.read_text())
        return made

    @property
    def certificate(self) -> Path:
        return self.folder / "tls.crt"

    @property
    def key(self) -> Path:
        return self.folder / "tls.key"

    @property
    def both(self) -> Path:
        """Key and certificate in one file, as Kafka reads them."""
        return self.folder / "both.pem"

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
