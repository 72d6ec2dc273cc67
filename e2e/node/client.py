"""kubectl and helm against one cluster, every call with a time limit."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from e2e.node.build import Tools
from e2e.node.errors import Broken

CALL_TIMEOUT_S = 60.0


class Refused(Broken):
    """The command ended with an error. `stderr` is what it said."""

    def __init__(self, command: str, status: int, stdout: str, stderr: str) -> None:
        super().__init__(f"`{command}` ended with {status}: {stderr.strip() or stdout.strip()}")
        self.status = status
        self.stdout = stdout
        self.stderr = stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Calls as the user of `kubeconfig`, in `namespace`."""

    tools: Tools
    kubeconfig: Path
    namespace: str = "default"

    def within(self, namespace: str) -> "Client":
        return replace(self, namespace=namespace)

    def environment(self) -> dict[str, str]:
        """For other programs: KUBECONFIG, and kubectl and helm first on PATH. What kubectl remembers of a cluster is
        kept beside that: under the user's home it would be that of any cluster which once had the same address."""
        path = f"{self.tools.folder}:{os.environ.get('PATH', '')}"
        cache = str(self.kubeconfig.parent / "kubectl-cache")
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": cache, "PATH": path}

    def kubectl(self, *words: str, given: str | None = None, timeout_s: float = CALL_TIMEOUT_S) -> str:
        """Its standard output; `given` is its standard input. `Refused` when it fails, `Broken` when it is slow."""
        return self._call("kubectl", words, given, timeout_s)

    def helm(self, *words: str, given: str | None = None, timeout_s: float = CALL_TIMEOUT_S) -> str:
        """Like `kubectl`."""
        return self._call("helm", words, given, timeout_s)

    def plugin(self, *words: str, timeout_s: float = CALL_TIMEOUT_S) -> str:
        """`kubectl muster`, from the environment that runs the tests."""
        plugin = Path(sys.executable).with_name("kubectl-muster")
        return self._run([str(plugin), *words, f"--namespace={self.namespace}"], None, timeout_s)

    def read(self, *words: str, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """`kubectl get … -o json`, parsed."""
        return json.loads(self.kubectl("get", *words, "--output=json", timeout_s=timeout_s))

    def apply(self, *objects: dict[str, Any], timeout_s: float = CALL_TIMEOUT_S) -> str:
        """Server-side apply of `objects`."""
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        return self.kubectl("apply", "--server-side", "--filename=-", given=given, timeout_s=timeout_s)

    def _call(self, program: str, words: tuple[str, ...], given: str | None, timeout_s: float) -> str:
        return self._run([str(self.tools.path(program)), f"--namespace={self.namespace}", *words], given, timeout_s)

    def _run(self, argv: list[str], given: str | None, timeout_s: float) -> str:
        command = " ".join([Path(argv[0]).name, *argv[1:]])
        try:
            done = subprocess.run(
                argv,
                input=given,
                env=self.environment(),
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as slow:
            raise Broken(f"`{command}` took more than {timeout_s:.0f} s") from slow
        if done.returncode != 0:
            raise Refused(command, done.returncode, done.stdout, done.stderr)
        return done.stdout
