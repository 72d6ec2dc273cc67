"""`make operator-bench`: 1,000 ConsumerGroups without children against a real API server, operator start to converged.

Prints seconds and the operator's memory; ends with 1 when it took more than the target.
"""

import os
import sys
import tempfile
from pathlib import Path

from e2e.node import session
from e2e.node.client import Client
from e2e.operator_process import install_crds, observing, operator_process, wait_for

GROUPS = 1_000
TARGET_S = 30.0


def main() -> int:
    """Exit status."""
    with tempfile.TemporaryDirectory() as folder:
        plane = session.api_only(Path(folder) / "api")
        try:
            client = Client(tools=plane.tools, kubeconfig=plane.kubeconfig)
            install_crds(client)
            client.apply(*(observing(f"g{number}") for number in range(GROUPS)), timeout_s=300)
            with operator_process(client, Path(folder) / "operator.log") as one:
                pattern = r'muster_operator_status_writes_total\{.*result="written"'
                took = wait_for("all statuses", lambda: one.metric(pattern) >= GROUPS, 300, one)
                live = client.read("cg", timeout_s=60)["items"]
                assert sum("observedGeneration" in found.get("status", {}) for found in live) == GROUPS
                print(f"{GROUPS} ConsumerGroups: start to converged in {took:.1f} s (target {TARGET_S:g} s)")
                busy = f"load average {os.getloadavg()[0]:.1f}"
                print(f"processor time of the operator until then: {one.cpu_s():.1f} s; {busy}")
                print(f"resident memory: {one.resident_bytes() / 2**20:.0f} MiB")
        finally:
            plane.stop()
    return 0 if took <= TARGET_S else 1


if __name__ == "__main__":
    sys.exit(main())
