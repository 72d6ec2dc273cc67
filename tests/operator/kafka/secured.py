"""A Muster of one process that lets nobody in without a password, and whose ACLs decide: for the operator's client."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from muster_coordinator.cli.dev_layout import DevLayout
from muster_coordinator.settings import STANDARD_AUTHORIZER
from muster_operator.world.login import Login

from tests.certificates import Authority
from tests.cluster import MusterCluster, wait_until

ADMIN, PASSWORD = "admin", "canary-operator-password"
PARTITIONS = 4
ROOT = Authority()
ENVIRONMENT = {**os.environ, "PLAIN_PASSWORD": "canary-plain"}


def muster(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "muster_coordinator.cli.main", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT
    )


class SecuredMuster:
    """SASL_SSL, SCRAM and PLAIN, the standard authorizer, one super user."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        secret = folder / "secret"
        ROOT.issue("server", ("127.0.0.1",)).write(secret)
        self.ca_file = secret / "ca.crt"
        self.ca_file.write_text(ROOT.pem)
        given = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.plaintext.plain.sasl.jaas.config": (
                'org.apache.kafka.common.security.plain.PlainLoginModule required user_plain="${env:PLAIN_PASSWORD}";'
            ),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{ADMIN}",
            "ssl.keystore.certificate.chain": str(secret / "tls.crt"),
            "ssl.keystore.key": str(secret / "tls.key"),
            **(settings or {}),
        }
        self.cluster = MusterCluster(folder / "data", replicas=1, partitions=PARTITIONS, settings=given)
        self.cluster.environment = ENVIRONMENT
        layout = DevLayout(self.cluster.folder, 1, self.cluster.port)
        layout.folder.mkdir()
        layout.write(PARTITIONS, self.cluster.settings)
        text = f"SCRAM-SHA-512=[name={ADMIN},password={PASSWORD}]"
        formatted = muster("format", "--config", str(layout.config_file(0)), "--add-scram", text)
        assert formatted.returncode == 0, formatted.stderr
        self.properties = folder / "admin.properties"
        self.properties.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.ca_file}\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{ADMIN}" password="{PASSWORD}";\n'
        )
        self.cluster.start(fresh=False)
        wait_until("the first user is made", lambda: self.try_muster("topic", "list").returncode == 0, 60, every=0.5)

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def login(self) -> Login:
        return Login(tls=True, ca=ROOT.pem, mechanism="SCRAM-SHA-512", username=ADMIN, password=PASSWORD)

    def try_muster(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return muster(*arguments, "-b", self.bootstrap, "--config", str(self.properties), stdin=stdin)

    def muster(self, *arguments: str, stdin: str = "") -> str:
        """What the administrator's command says."""
        done = self.try_muster(*arguments, stdin=stdin)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def acls(self, principal: str) -> set[tuple[str, ...]]:
        rows = json.loads(self.muster("acl", "list", "-o", "json"))
        keys = ("resource", "name", "pattern", "host", "operation", "permission")
        return {tuple(row[key] for key in keys) for row in rows if row["principal"] == principal}

    def output(self) -> str:
        """All that the process and its supervisor have said."""
        texts = [self.cluster.output.read_text(errors="replace")]
        return "".join(texts + [one.read_text(errors="replace") for one in self.cluster.folder.glob("replica-*/*.log")])

    def close(self) -> None:
        self.cluster.close()
