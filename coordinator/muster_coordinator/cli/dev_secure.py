"""What makes a `muster dev` folder a closed cluster: the folder DIR/secure, and the settings that it means (ADR 57).

DIR/secure/ca.crt, ca.key, server.crt, server.key      the CA, and the certificate of all replicas
DIR/secure/truststore.p12                              the CA for Java
DIR/secure/admin.password, app.password                of the two users
DIR/secure/admin.properties, app.properties            `--config` of the commands; Kafka's tools read them too
DIR/secure/app-java.properties, app-librdkafka.properties
DIR/secure/clients.txt                                 what is printed at each start
DIR/secure/rights-given                                the application has its ACLs

`ca.crt` comes last, so a folder that has it has all that cannot be made again. What holds a password or a key has mode
0600, and nothing of it is ever printed. Users are made once, with the cluster (`muster format`); passwords that were
changed later are not written here. What this does not do: close a cluster that was begun open.
"""

import contextlib
import datetime as dt
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from muster_coordinator.cli.dev_clients import ADMIN, APP, PASSWORD_OF_TRUSTSTORE, Access, client_files, client_text
from muster_coordinator.settings import STANDARD_AUTHORIZER

SECRET_MODE, OPEN_MODE = 0o600, 0o644
PASSWORD_BYTES = 24
LISTENER = "SASL_SSL"


@dataclass(frozen=True, slots=True)
class SecureFolder:
    """DIR/secure."""

    folder: Path

    def file(self, name: str) -> Path:
        return self.folder / name

    @property
    def made(self) -> bool:
        return self.file("ca.crt").exists()

    def settings(self) -> dict[str, str]:
        """Of every replica, but for its ports."""
        return {
            "listener.security.protocol.map": f"{LISTENER}:SASL_SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "ssl.keystore.certificate.chain": str(self.file("server.crt")),
            "ssl.keystore.key": str(self.file("server.key")),
            "ssl.truststore.location": str(self.file("ca.crt")),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{ADMIN}",
            "muster.peer.security": "tls",
            "muster.admin.tls": "true",
        }

    def make(self, now: dt.datetime) -> None:
        """Make what is not there yet, and a certificate that does not last any more. Raises OSError, ValueError."""
        from muster_coordinator.runtime.tls_authority import Authority, lasts

        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for user in (ADMIN, APP):
            if not self.file(f"{user}.password").exists():
                self._write(f"{user}.password", (secrets.token_urlsafe(PASSWORD_BYTES) + "\n").encode())
        if self.made:
            authority = Authority.read(self.file("ca.crt").read_bytes(), self.file("ca.key").read_bytes())
        else:
            authority = Authority.new(now)
            self._write("ca.key", authority.key_pem)
        server = self.file("server.crt")
        if not (self.made and server.exists() and lasts(server.read_bytes(), now)):
            certificate, key = authority.issue(now)
            self._write("server.key", key)
            self._write("server.crt", certificate, OPEN_MODE)
        if not (self.made and self.file("truststore.p12").exists()):
            self._write("truststore.p12", authority.truststore(PASSWORD_OF_TRUSTSTORE), OPEN_MODE)
        if not self.made:
            self._write("ca.crt", authority.pem, OPEN_MODE)

    def write_clients(self, bootstrap: str, token_file: Path) -> None:
        """The settings of clients, for the brokers that there are now. Raises OSError."""
        access = Access(self.folder, bootstrap, token_file)
        for name, text in client_files(access, self.password(ADMIN), self.password(APP)).items():
            self._write(name, text.encode())
        self._write("clients.txt", client_text(access).encode(), OPEN_MODE)

    def first_users(self) -> list[str]:
        """In the words of `muster format --add-scram`."""
        users = (ADMIN, APP)
        return [f"SCRAM-SHA-512=[name={user},iterations=8192,password={self.password(user)}]" for user in users]

    def password(self, user: str) -> str:
        return self.file(f"{user}.password").read_text("utf-8").strip()

    def remove(self) -> None:
        """All that was made here, and nothing else."""
        for name in _FILES:
            self.file(name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _write(self, name: str, data: bytes, mode: int = SECRET_MODE) -> None:
        """Whole or not at all, and never readable by others meanwhile."""
        path = self.file(f".{name}.new")
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        path.replace(self.file(name))


_FILES = (
    "ca.crt", "ca.key", "server.crt", "server.key", "truststore.p12", "admin.password", "app.password",
    "admin.properties", "app.properties", "app-java.properties", "app-librdkafka.properties", "clients.txt",
    "rights-given", "rights.log",
)  # fmt: skip
