"""Kafka's four security protocols of a listener: is it encrypted, and does a client authenticate by SASL."""

from enum import Enum


class SecurityProtocol(Enum):
    """Names of org.apache.kafka.common.security.auth.SecurityProtocol, as in `listener.security.protocol.map`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
