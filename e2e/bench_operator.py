"""`make operator-bench`: 1,000 ConsumerGroups without children against a real API server, operator start to converged.

Prints seconds, the processor time that every part took of them, and the operator's memory; ends with 1 when either is
more than its target.
"""

import os
import sys
import tempfile
from pathlib import Path

from e2e import operator_environment
from e2e.node import session
from e2e.node.client import Client
from e2e.node.control_plane import ControlPlane
from e2e.operator_process import MEMORY_MIB_MAX, cpu_s, install_crds, observing, operator_process, wait_for

GROUPS = 1_000
TARGET_S = 30.0


def main() -> int:
    """Exit status."""
    python = operator_environment.python()
    with tempfile.TemporaryDirectory() as folder:
        plane = session.api_only(Path(folder) / "api")
        try:
            client = Client(tools=plane.tools, kubeconfig=plane.kubeconfig)
            install_crds(client)
            client.apply(*(observing(f"g{number}") for number in range(GROUPS)), timeout_s=300)
            before = spent(plane)
            with operator_process(client, Path(folder) / "operator.log", python=python) as one:
                pattern = r'muster_operator_status_writes_total\{.*result="written"'
                took = wait_for("all statuses", lambda: one.metric(pattern) >= GROUPS, 300, one)
                parts = {"operator": one.cpu_s()} | {name: s - before[name] for name, s in spent(plane).items()}
                live = client.read("cg", timeout_s=60)["items"]
                assert sum("observedGeneration" in found.get("status", {}) for found in live) == GROUPS
                print(f"{GROUPS} ConsumerGroups: start to converged in {took:.1f} s (target {TARGET_S:g} s)")
                print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; processor time until then:")
                print(", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts.items()))
                memory = one.resident_mib()
                print(f"resident memory: {memory:.0f} MiB (target {MEMORY_MIB_MAX:g})")
        finally:
            plane.stop()
    return 0 if took <= TARGET_S and memory <= MEMORY_MIB_MAX else 1


def spent(plane: ControlPlane) -> dict[str, float]:
    """Processor time of etcd and the API server so far."""
    return {one.name: cpu_s(one.process.pid) for one in plane.daemons}


if __name__ == "__main__":
    sys.exit(main())
