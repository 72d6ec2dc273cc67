"""How a command calls the admin API: with which token or certificate, and over TLS or not.

`--config FILE` is the file that the commands of Kafka's protocol take, so that one file serves all: its `ssl.*` say
whom to trust and what to show, and `security.protocol` SSL or SASL_SSL means https here too. `muster.admin.tls` says it
where the two differ, `muster.admin.token.file` names the token. So who writes that a connection is encrypted never
sends a token in clear. Files are PEM. `--dev DIR` finds all of that in the folder.
"""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from muster_coordinator.cli.client_properties import OF_ADMIN_API, tls_files
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.properties import PropertiesError, parse_properties, with_environment

TLS, TOKEN_FILE = f"{OF_ADMIN_API}tls", f"{OF_ADMIN_API}token.file"


class AdminLogin(NamedTuple):
    """`tls` None: plain HTTP."""

    token: str = ""
    tls: ssl.SSLContext | None = None
    shows_certificate: bool = False

    @property
    def complete(self) -> bool:
        """Is there anything to show?"""
        return bool(self.token) or self.shows_certificate


def read_token(path: Path) -> str:
    """The bearer token of a file. Raises CliError."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(Exit.USAGE, f"cannot read the token file {path}: {error}") from error
    if not token:
        raise CliError(Exit.USAGE, f"the token file {path} is empty")
    return token


def login_of(path: Path, otherwise: AdminLogin) -> AdminLogin:
    """What the file says; `otherwise` has the token where it names none. Raises CliError, which quotes no value but
    paths."""
    try:
        values = with_environment(parse_properties(path.read_text("utf-8")), os.environ)
        unknown = [key for key in values if key.startswith(OF_ADMIN_API) and key not in (TLS, TOKEN_FILE)]
        if unknown:
            raise ValueError(f"unknown key {unknown[0]}; there are {TLS} and {TOKEN_FILE}")
        encrypts = _encrypts(values)
        files = tls_files({key: text for key, text in values.items() if key.startswith("ssl.")}) if encrypts else {}
        context = _context(files) if encrypts else None
    except (OSError, UnicodeDecodeError, PropertiesError, ValueError) as error:
        raise CliError(Exit.USAGE, f"cannot use {path}: {error}") from error
    token = read_token(Path(values[TOKEN_FILE])) if TOKEN_FILE in values else otherwise.token
    return AdminLogin(token, context, "ssl.certfile" in files)


def dev_access(folder: Path) -> tuple[list[str], AdminLogin]:
    """Admin addresses of a `muster dev` folder, and how to call them. Raises CliError."""
    addresses: list[str] = []
    trusted: str | None = None
    for path in sorted(folder.glob("replica-*/server.properties")):
        try:
            values = parse_properties(path.read_text())
            addresses.append(values["muster.admin.listener"])
        except (OSError, PropertiesError, KeyError) as error:
            raise CliError(Exit.USAGE, f"cannot use {path}: {error}") from error
        if values.get(TLS) == "true":
            trusted = values.get("ssl.truststore.location", "")
    if not addresses:
        raise CliError(Exit.USAGE, f"{folder} is not a folder of muster dev: it has no replica-N/server.properties")
    token = read_token(folder / "admin-token")
    if trusted is None:
        return addresses, AdminLogin(token)
    try:
        return addresses, AdminLogin(token, _context({"ssl.cafile": trusted} if trusted else {}))
    except (OSError, ValueError) as error:
        raise CliError(Exit.USAGE, str(error)) from error


def _encrypts(values: Mapping[str, str]) -> bool:
    said = values.get(TLS, "true" if values.get("security.protocol", "") in ("SSL", "SASL_SSL") else "false")
    if said not in ("true", "false"):
        raise ValueError(f"{TLS} must be true or false")
    return said == "true"


def _context(files: Mapping[str, str]) -> ssl.SSLContext:
    """Verifies chain and host name. Raises OSError and ValueError that name the file."""
    trusted, shown = files.get("ssl.cafile"), files.get("ssl.certfile")
    try:
        context = ssl.create_default_context(cafile=trusted)
    except (OSError, ValueError) as error:
        raise ValueError(f"{trusted}: no certificates to trust can be read from it") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if shown is not None:
        try:
            # Without a password OpenSSL would ask for one at the terminal, of whoever waits for the command's output.
            context.load_cert_chain(shown, password=files.get("ssl.password", ""))
        except (OSError, ValueError) as error:
            raise ValueError(f"{shown}: no certificate with its key can be read from it") from error
    return context
