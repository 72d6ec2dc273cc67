"""How a Kafka cluster is reached: its addresses, and what a client needs there to trust and to be trusted.

The values come from Secrets. They are compared, handed to the client library, and nothing else: the text of each of
these objects (`repr`, which is what a log or a traceback would show) contains none of them.
"""

from dataclasses import dataclass, field

from typing_extensions import override

from muster_operator.world.views import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """TLS and SASL of one client. Two equal logins share one client; another password is another login."""

    tls: bool = False
    ca: str = field(default="", repr=False)
    """Certificates in PEM that are trusted; "": those of the operator's image."""
    mechanism: str = ""
    """SASL mechanism in Kafka's words; "": none."""
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    """The client's own, with its chain, in PEM; "": none."""
    key: str = field(default="", repr=False)

    @property
    def protocol(self) -> str:
        """Kafka's `security.protocol`."""
        if self.mechanism:
            return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"
        return "SSL" if self.tls else "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The addresses of a cluster and the login for them; as text the addresses alone."""

    bootstrap: str
    login: Login

    @override
    def __str__(self) -> str:
        return self.bootstrap


Where = str | Endpoint
"""A cluster: addresses alone are one without TLS and authentication."""


def where(bootstrap: str | Unknown, login: Login | Unknown | None) -> Where | Unknown:
    """The cluster, or why it cannot be asked."""
    if isinstance(bootstrap, Unknown):
        return bootstrap
    if isinstance(login, Unknown):
        return login
    return bootstrap if login is None else Endpoint(bootstrap, login)
