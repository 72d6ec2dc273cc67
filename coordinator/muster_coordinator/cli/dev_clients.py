"""The settings that clients of a `muster dev --secure` cluster need, in the words of each family of clients.

Files that hold a password (`client_files`), and a text that names them and shows the rest (`client_text`), of which
every line can be used as it stands: no password is in it. Pure. What it does not do: write anything (`dev_secure`).
"""

from pathlib import Path
from typing import NamedTuple

from muster_coordinator.properties import format_properties

ADMIN, APP = "admin", "app"
MECHANISM = "SCRAM-SHA-512"
PASSWORD_OF_TRUSTSTORE = "changeit"
"""Java's own word for a store that holds nothing secret, and asks for a password all the same."""
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Access(NamedTuple):
    """Where the files and the brokers are."""

    folder: Path
    bootstrap: str
    token_file: Path

    def file(self, name: str) -> str:
        return str(self.folder / name)


def client_files(access: Access, admin_password: str, app_password: str) -> dict[str, str]:
    """Name -> content."""
    pem = {"ssl.truststore.type": "PEM", "ssl.truststore.location": access.file("ca.crt")}
    java = {
        "bootstrap.servers": access.bootstrap,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": access.file("truststore.p12"),
        "ssl.truststore.password": PASSWORD_OF_TRUSTSTORE,
    }
    of_admin_api = {"muster.admin.token.file": str(access.token_file)}
    librdkafka = {
        "bootstrap.servers": access.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": access.file("ca.crt"),
        "sasl.mechanism": MECHANISM,
        "sasl.username": APP,
        "sasl.password": app_password,
    }
    return {
        "admin.properties": _properties({**_login(ADMIN, admin_password), **pem, **of_admin_api}),
        "app.properties": _properties({**_login(APP, app_password), **pem}),
        "app-java.properties": _properties({**_login(APP, app_password), **java}),
        "app-librdkafka.properties": _properties(librdkafka),
    }


def _properties(values: dict[str, str]) -> str:
    return format_properties(values, "Written by muster dev, and again at its next start. It holds a password.")


def _login(user: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f'{_LOGIN} required username="{user}" password="{password}";',
    }


def client_text(access: Access) -> str:
    """What is printed."""
    password = f'Path("{access.file("app.password")}").read_text().strip()'
    seeds = ", ".join(f'"{one}"' for one in access.bootstrap.split(","))
    return f"""\
The cluster is closed: TLS, SCRAM, ACLs. Its users are {ADMIN}, who may do everything, and {APP}, who may read and write
every topic in any group. Passwords are in files of {access.folder}.

muster, as {ADMIN}:
  muster topic list -b {access.bootstrap} --config {access.file("admin.properties")}

Java and Kafka's tools (properties of a client, or --command-config):
  {access.file("app-java.properties")}

librdkafka, kcat:
  kcat -F {access.file("app-librdkafka.properties")} -L

confluent-kafka:
  from pathlib import Path
  settings = {{
      "bootstrap.servers": "{access.bootstrap}",
      "security.protocol": "SASL_SSL",
      "ssl.ca.location": "{access.file("ca.crt")}",
      "sasl.mechanism": "{MECHANISM}",
      "sasl.username": "{APP}",
      "sasl.password": {password},
  }}

kafka-python:
  from pathlib import Path
  settings = dict(
      bootstrap_servers=[{seeds}],
      security_protocol="SASL_SSL",
      ssl_cafile="{access.file("ca.crt")}",
      sasl_mechanism="{MECHANISM}",
      sasl_plain_username="{APP}",
      sasl_plain_password={password},
  )

aiokafka:
  import ssl
  from pathlib import Path
  settings = dict(
      bootstrap_servers=[{seeds}],
      security_protocol="SASL_SSL",
      ssl_context=ssl.create_default_context(cafile="{access.file("ca.crt")}"),
      sasl_mechanism="{MECHANISM}",
      sasl_plain_username="{APP}",
      sasl_plain_password={password},
  )

franz-go:
  ca, _ := os.ReadFile("{access.file("ca.crt")}")
  password, _ := os.ReadFile("{access.file("app.password")}")
  roots := x509.NewCertPool()
  roots.AppendCertsFromPEM(ca)
  client, err := kgo.NewClient(
      kgo.SeedBrokers({seeds}),
      kgo.DialTLSConfig(&tls.Config{{RootCAs: roots}}),
      kgo.SASL(scram.Auth{{User: "{APP}", Pass: strings.TrimSpace(string(password))}}.AsSha512Mechanism()),
  )
"""
