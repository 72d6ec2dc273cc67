"""The node's own programs inside a sandbox: containerd with CNI, kubelet, kube-proxy and CoreDNS.

Versions: Debian 12's containerd 1.6 lacks the CRI call RuntimeConfig, so the cgroup driver is set by hand, and a host
with cgroup v1 has to be allowed (`failCgroupV1`). Both end with Kubernetes 1.38.
CoreDNS runs on the node rather than as a pod: no image of it is needed and names resolve before the first pod starts.
"""

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from e2e.node import daemon, network, packages
from e2e.node.build import Tools
from e2e.node.daemon import Daemon
from e2e.node.errors import Broken
from e2e.node.pki import Authority

PAUSE_IMAGE = "muster.test/pause:1"
SOCKET = "/run/containerd/containerd.sock"
READY_TIMEOUT_S = 30.0
IMPORT_TIMEOUT_S = 120.0
MAX_PODS = 250
DNS_READY_PORT = 8181


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrograms:
    """Starts what needs the cluster's certificates, with configuration in `folder` and logs in `logs`."""

    tools: Tools
    authority: Authority
    node: str
    folder: Path
    logs: Path

    def kubelet(self) -> Daemon:
        resolver = self.folder / "pod-resolv.conf"
        resolver.write_text("nameserver 127.0.0.1\n")  # only for pods with dnsPolicy Default: there is no way out
        config = self.folder / "kubelet.json"
        config.write_text(json.dumps(kubelet_config(self.authority, resolver)))
        flags = [f"--config={config}", f"--kubeconfig={self.authority.kubeconfig('kubelet')}",
                 f"--hostname-override={self.node}", f"--node-ip={network.NODE_ADDRESS}"]  # fmt: skip
        return self._start("kubelet", self.tools.path("kubelet"), *flags)

    def proxy(self) -> Daemon:
        config = self.folder / "kube-proxy.json"
        config.write_text(json.dumps(proxy_config(self.authority, self.node, masquerade_all=not _bridges_filter())))
        return self._start("kube-proxy", self.tools.path("kube-proxy"), f"--config={config}")

    def dns(self) -> Daemon:
        corefile = dns_config(self.authority.kubeconfig("dns"), context="muster")
        return start_dns(self.tools, corefile, self.folder, self.logs)

    def _start(self, name: str, *argv: str | Path) -> Daemon:
        return daemon.start(name, argv, self.logs, dies_with_starter=False, env=_environment())


def start_dns(tools: Tools, corefile: str, folder: Path, logs: Path) -> Daemon:
    """CoreDNS on the sandbox's address."""
    path = folder / "Corefile"
    path.write_text(corefile)
    argv: list[str | Path] = [tools.path("coredns"), "-conf", path]
    return daemon.start("coredns", argv, logs, dies_with_starter=False, env=_environment())


def start_containerd(folder: Path, logs: Path) -> Daemon:
    """containerd, started and answering, with its configuration and CNI's in `folder`."""
    (folder / "cni").mkdir(parents=True, exist_ok=True)
    (folder / "cni" / "10-muster.conflist").write_text(json.dumps(cni_config()))
    config = folder / "containerd.toml"
    config.write_text(containerd_config(folder, snapshotter=snapshotter(folder)))
    argv: list[str | Path] = [_program("containerd"), "--config", config]
    started = daemon.start("containerd", argv, logs, dies_with_starter=False, env=_environment())
    daemon.until("containerd", _containerd_answers, READY_TIMEOUT_S, [started])
    return started


def import_image(archive: Path) -> None:
    """Load an OCI archive into the node's containerd."""
    argv = [_program("ctr"), "--address", SOCKET, "--namespace", "k8s.io", "images", "import", str(archive)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=IMPORT_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise Broken(f"containerd refuses {archive.name}: {done.stderr.strip()[-500:]}")


def containerd_config(folder: Path, *, snapshotter: str) -> str:
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE a lower score is refused.
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""


def cni_config() -> dict[str, object]:
    ranges = [[{"subnet": network.POD_RANGE}]]
    ipam = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni"}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True, "ipam": ipam}
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "muster", "plugins": [bridge, portmap]}


def kubelet_config(authority: Authority, resolver: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority.crt("ca"))},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(authority.crt("kubelet")),
        "tlsPrivateKeyFile": str(authority.key("kubelet")),
        "clusterDomain": "cluster.local",
        "clusterDNS": [network.NODE_ADDRESS],
        "resolvConf": str(resolver),
        "failSwapOn": False,
        "evictionHard": {
            "memory.available": "200Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        # A collected image cannot be pulled again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "5s",
        "maxPods": MAX_PODS,
        "volumePluginDir": "/run/kubelet-plugins",
    }


def proxy_config(authority: Authority, node: str, *, masquerade_all: bool) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(authority.kubeconfig("proxy"))},
        "clusterCIDR": network.POD_RANGE,
        "hostnameOverride": node,
        "iptables": {"masqueradeAll": masquerade_all, "minSyncPeriod": "0s"},
        # These are machine-wide settings; nought leaves them alone.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def dns_config(kubeconfig: Path, *, context: str, hosts: Mapping[str, str] | None = None) -> str:
    """Corefile for the names of the cluster behind `kubeconfig`, and `hosts` (name → address) beside them."""
    known = "".join(f"    {address} {name}\n" for name, address in (hosts or {}).items())
    return f""".:53 {{
  errors
  ready {network.NODE_ADDRESS}:{DNS_READY_PORT}
  hosts {{
{known}    fallthrough
  }}
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {kubeconfig} {context}
    ttl 1
  }}
  cache 1
}}
"""


def snapshotter(folder: Path) -> str:
    """The snapshotter for the disk below `folder`: overlayfs if it can carry an overlay, else native (slow copies)."""
    scratch = folder / "overlay-probe"
    layers = {name: scratch / name for name in ("lower", "upper", "work", "merged")}
    for layer in layers.values():
        layer.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={layers['lower']},upperdir={layers['upper']},workdir={layers['work']}"
    argv = ["mount", "-t", "overlay", "overlay", "-o", options, str(layers["merged"])]
    works = subprocess.run(argv, capture_output=True, timeout=10, check=False).returncode == 0
    if works:
        subprocess.run(["umount", str(layers["merged"])], check=True, timeout=10)
    shutil.rmtree(scratch)
    return "overlayfs" if works else "native"


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{packages.SEARCH_PATH}"}


def _containerd_answers() -> bool:
    argv = [_program("ctr"), "--address", SOCKET, "--timeout", "1s", "version"]
    return subprocess.run(argv, capture_output=True, timeout=10, check=False).returncode == 0


def _bridges_filter() -> bool:
    """Whether traffic between two ports of a bridge passes iptables in this network namespace."""
    setting = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    return setting.exists() and setting.read_text().strip() == "1"


def dns_answers() -> bool:
    """Whether CoreDNS has read the cluster's Services."""
    try:
        with urllib.request.urlopen(f"http://{network.NODE_ADDRESS}:{DNS_READY_PORT}/ready", timeout=2) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def _program(name: str) -> str:
    found = shutil.which(name, path=packages.SEARCH_PATH)
    if found is None:
        raise Broken(f"{name} is gone")
    return found
