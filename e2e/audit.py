"""What the operator's service account, or another, asked of the API server, from the server's own audit log.

Times are the server's, of the moment a request was received; the tests run on the same machine, so they compare with
`time.time()`. A reader begins where the log ended when it was made.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from e2e.node.session import Description

USER = "system:serviceaccount:muster:muster-operator"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    at_s: float
    """Since the epoch."""
    verb: str
    resource: str
    """With its subresource, as a role names it: `pods/eviction`."""
    namespace: str
    name: str
    by: str
    """Name of the operator's pod."""
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    path: Path
    begin: int
    """Bytes of the log that are older."""
    user: str = USER

    @classmethod
    def now(cls, node: Description, user: str = USER) -> "Audit":
        path = node.state / "logs" / "audit.log"
        return cls(path=path, begin=path.stat().st_size, user=user)

    def asked(self) -> Iterator[Asked]:
        """Every request of the user since this reader was made, in the log's order."""
        with self.path.open("rb") as log:
            log.seek(self.begin)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # being written
                event = json.loads(line)
                if event["user"]["username"] == self.user and "objectRef" in event:
                    yield _asked(event)

    def writes(self) -> list[Asked]:
        """Those that may change something, apart from Leases."""
        return [one for one in self.asked() if one.verb in WRITES and one.resource != "leases"]

    def evictions(self, namespace: str) -> dict[str, float]:
        """Pod → when its eviction was asked for and granted, in that order."""
        return {
            one.name: one.at_s
            for one in self.asked()
            if one.resource == "pods/eviction" and one.namespace == namespace and one.code < 300
        }


def _asked(event: Mapping[str, Any]) -> Asked:
    target = event["objectRef"]
    pods = event["user"].get("extra", {}).get("authentication.kubernetes.io/pod-name", [""])
    return Asked(
        at_s=datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
        verb=event["verb"],
        resource="/".join(target[key] for key in ("resource", "subresource") if key in target),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        by=pods[0],
        code=event["responseStatus"]["code"],
    )
