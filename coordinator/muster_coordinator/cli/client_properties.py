"""The properties file of a client (`--config FILE`), by the names that Kafka's own tools read with `--command-config`.

Problem: the client of the commands is kafka-python, which has its own names for who one is. Mechanism:
`sasl.jaas.config` is parsed, nothing is loaded by it, and its user and password become that client's settings, as the
files of TLS do, in PEM; what has the same name but for its dots (`security.protocol`, `sasl.mechanism`) is passed on.
`${env:NAME}` stands for a variable of the environment, so that a file need not hold the password. What it does not do:
know which settings there are (`kafka_client.client_settings`), read keystores of Java, or leave the host name of a
server unverified.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.properties import PropertiesError, parse_properties, with_environment
from muster_coordinator.security.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas

OF_ADMIN_API = "muster.admin."
"""Keys of the same file that are about the admin API (`admin_login`)."""
_JAAS = "sasl.jaas.config"
_MODULES = {"PLAIN": PLAIN_MODULE, "SCRAM-SHA-256": SCRAM_MODULE, "SCRAM-SHA-512": SCRAM_MODULE}
Translation = Callable[[dict[str, str]], dict[str, str]]


def read_client_properties(path: Path | None) -> dict[str, str]:
    """The settings of the file, in names that kafka-python has but for dots; none without a path. Raises CliError,
    which never quotes a value."""
    if path is None:
        return {}
    try:
        values = with_environment(parse_properties(path.read_text()), os.environ)
        values = {key: text for key, text in values.items() if not key.startswith(OF_ADMIN_API)}
        for translate in _TRANSLATIONS:
            values = translate(values)
    except (OSError, UnicodeDecodeError, PropertiesError, ValueError) as error:
        raise CliError(Exit.USAGE, f"cannot use {path}: {error}") from error
    return values


def _login(values: dict[str, str]) -> dict[str, str]:
    """User and password out of `sasl.jaas.config`. Raises ValueError."""
    mechanism = _mechanism(values)
    if _JAAS not in values:
        return values
    try:
        login = parse_jaas(values[_JAAS])
    except ValueError as error:
        raise ValueError(f"{_JAAS}: {error}") from None
    if mechanism is None or login.module != _MODULES[mechanism]:
        raise ValueError(f"{_JAAS} has a login module that is not that of sasl.mechanism={mechanism or ''}")
    if not login.options.get("username") or "password" not in login.options:
        raise ValueError(f"{_JAAS} needs username and password")
    rest = {key: value for key, value in values.items() if key != _JAAS}
    return {**rest, "sasl.plain.username": login.options["username"], "sasl.plain.password": login.options["password"]}


def _mechanism(values: Mapping[str, str]) -> str | None:
    """Raises ValueError for one that these commands cannot use."""
    mechanism = values.get("sasl.mechanism")
    asked = values.get("security.protocol", "").startswith("SASL_")
    if mechanism is None and asked:
        raise ValueError("sasl.mechanism is needed with this security.protocol: " + ", ".join(_MODULES))
    if mechanism is not None and mechanism not in _MODULES:
        raise ValueError(f"sasl.mechanism={mechanism} is none of {', '.join(_MODULES)}")
    return mechanism


def of_connection(properties: Mapping[str, str]) -> dict[str, str]:
    """Those of them that say how to connect, which every kind of client takes."""
    return {key: text for key, text in properties.items() if key.startswith(("security.", "sasl.", "ssl."))}


_STORES = {"ssl.truststore.type": "ssl.truststore.location", "ssl.keystore.type": "ssl.keystore.location"}
_INLINE = ("ssl.truststore.certificates", "ssl.keystore.certificate.chain", "ssl.keystore.key")
_OF_TLS = {
    "ssl.truststore.location": "ssl.cafile",
    "ssl.keystore.location": "ssl.certfile",  # with the private key, as Kafka has it
    "ssl.key.password": "ssl.password",
}


def tls_files(values: dict[str, str]) -> dict[str, str]:
    """The files of `ssl.*`. Raises ValueError."""
    for kind, location in _STORES.items():
        if location in values and values.get(kind, "JKS").upper() != "PEM":
            raise ValueError(
                f"{location}: these commands read PEM; write {kind}=PEM, and make such a file by "
                "keytool -importkeystore -srckeystore STORE -destkeystore STORE.p12 -deststoretype PKCS12, then "
                "openssl pkcs12 -in STORE.p12 -out FILE.pem"
            )
    for key in _INLINE:
        if key in values:
            raise ValueError(f"{key}: write it to a file, and name that: {', '.join(_STORES.values())}")
    verified = "ssl.endpoint.identification.algorithm"
    if values.get(verified, "https").lower() != "https":
        raise ValueError(f"{verified}: the name of a server is always verified (https)")
    rest = {key: text for key, text in values.items() if key not in _STORES and key != verified}
    return {_OF_TLS.get(key, key): text for key, text in rest.items()}


_TRANSLATIONS: tuple[Translation, ...] = (_login, tls_files)
