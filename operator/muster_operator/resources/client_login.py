"""What a consumer pod gets for a secured cluster: environment variables and files, all by reference to Secrets.

| variable (each with `KAFKA_`, `MUSTER_`, `RIVVEN_`) | |
|---|---|
| `SECURITY_PROTOCOL` | Kafka's word: `SSL`, `SASL_SSL`, `SASL_PLAINTEXT` |
| `SASL_MECHANISM`, `SASL_USERNAME`, `SASL_PASSWORD` | `scram-sha-512`, `scram-sha-256`, `plain`; from the Secret |
| `SASL_OAUTHBEARER_TOKEN_LOCATION` | file with the token, `oauthbearer` |
| `SSL_CA_LOCATION` | file with the trusted authorities, if `tls.caSecret` is set |
| `SSL_CERTIFICATE_LOCATION`, `SSL_KEY_LOCATION` | files, `tls` |
| `CLIENT_SECRET_DIRECTORY` | every key of the Secret as a file: `client.properties` and the like of a `User` |

Spring Boot's own names are set too. Variables that the template sets itself, or that its `env` names, are left to it.

No value of a Secret is part of a template, so a rotated password changes no template and rolls no pod: files are
renewed by the kubelet within about a minute, variables with the next start of the pod.
"""

from typing import Final

from muster_operator.api.client_access import (
    CA_KEY,
    CERTIFICATE_KEY,
    PASSWORD_KEY,
    PRIVATE_KEY_KEY,
    TOKEN_KEY,
    USERNAME_KEY,
)
from muster_operator.api.consumer_env import FAMILIES
from muster_operator.api.group import CLIENT_VOLUME, GroupSpec
from muster_operator.resources.owned import Manifest

FOLDER: Final = "/etc/muster/client"
CA_FOLDER: Final = "/etc/muster/client-ca"
SECRET_VOLUME: Final = CLIENT_VOLUME
CA_VOLUME: Final = f"{CLIENT_VOLUME}-ca"
_SPRING: Final = "SPRING_KAFKA_PROPERTIES"
LOGIN_MODULES: Final = {
    "scram-sha-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "scram-sha-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "plain": "org.apache.kafka.common.security.plain.PlainLoginModule",
}
"""`authentication.type` → Java's login module."""


def protocol(spec: GroupSpec) -> str:
    sasl = spec.authentication is not None and bool(spec.authentication.mechanism)
    if sasl:
        return "SASL_SSL" if spec.tls is not None else "SASL_PLAINTEXT"
    return "SSL" if spec.tls is not None else "PLAINTEXT"


def environment(spec: GroupSpec) -> list[Manifest]:
    """The variables, in a fixed order; [] for an open cluster."""
    if spec.tls is None and spec.authentication is None:
        return []
    found = _literals("SECURITY_PROTOCOL", protocol(spec), spring=True)
    if spec.tls is not None and spec.tls.ca_secret is not None:
        found += _literals("SSL_CA_LOCATION", f"{CA_FOLDER}/{CA_KEY}")
        found += _spring(SSL_TRUSTSTORE_TYPE="PEM", SSL_TRUSTSTORE_LOCATION=f"{CA_FOLDER}/{CA_KEY}")
    who = spec.authentication
    if who is None:
        return _unless_set(found, spec)
    if who.mechanism:
        found += _literals("SASL_MECHANISM", who.mechanism, spring=True)
    found += _literals("CLIENT_SECRET_DIRECTORY", FOLDER)
    if who.type in LOGIN_MODULES:
        for suffix, key in (("SASL_USERNAME", USERNAME_KEY), ("SASL_PASSWORD", PASSWORD_KEY)):
            source = {"secretKeyRef": {"name": who.secret.name, "key": key}}
            found += [{"name": f"{family}_{suffix}", "valueFrom": source} for family in FAMILIES]
        family = FAMILIES[0]
        jaas = (
            f'{LOGIN_MODULES[who.type]} required username="$({family}_SASL_USERNAME)"'
            f' password="$({family}_SASL_PASSWORD)";'
        )
        found += _spring(SASL_JAAS_CONFIG=jaas)
    elif who.type == "oauthbearer":
        found += _literals("SASL_OAUTHBEARER_TOKEN_LOCATION", f"{FOLDER}/{TOKEN_KEY}")
    else:
        found += _literals("SSL_CERTIFICATE_LOCATION", f"{FOLDER}/{CERTIFICATE_KEY}")
        found += _literals("SSL_KEY_LOCATION", f"{FOLDER}/{PRIVATE_KEY_KEY}")
    return _unless_set(found, spec)


def volumes(spec: GroupSpec) -> list[Manifest]:
    """For the files; [] for an open cluster."""
    found: list[Manifest] = []
    if spec.authentication is not None:
        found.append({"name": SECRET_VOLUME, "secret": {"secretName": spec.authentication.secret.name}})
    if spec.tls is not None and spec.tls.ca_secret is not None:
        secret = spec.tls.ca_secret
        items = [{"key": secret.key, "path": CA_KEY}]
        found.append({"name": CA_VOLUME, "secret": {"secretName": secret.name, "items": items}})
    return found


def mounts(spec: GroupSpec) -> list[Manifest]:
    """Where the first container has them. No `subPath`: such a file would never be renewed."""
    folders = {SECRET_VOLUME: FOLDER, CA_VOLUME: CA_FOLDER}
    return [{"name": one["name"], "mountPath": folders[one["name"]], "readOnly": True} for one in volumes(spec)]


def _literals(suffix: str, value: str, *, spring: bool = False) -> list[Manifest]:
    found = [{"name": f"{family}_{suffix}", "value": value} for family in FAMILIES]
    return found + (_spring(**{suffix: value}) if spring else [])


def _spring(**values: str) -> list[Manifest]:
    return [{"name": f"{_SPRING}_{name}", "value": value} for name, value in values.items()]


def _unless_set(found: list[Manifest], spec: GroupSpec) -> list[Manifest]:
    own = {str(one["name"]) for one in (spec.template.env if spec.template is not None else ())}
    return [one for one in found if one["name"] not in own]
