"""A real control plane of Kubernetes on loopback, without containers: objects are checked, controllers act on them, and the
scheduler places pods. tests/lab/kubelet.py adds machines that run them.

The programs are looked for where envtest users have them: KUBEBUILDER_ASSETS is their directory.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import urllib.request
from http.client import HTTPSConnection
from pathlib import Path
from ssl import _create_unverified_context
from types import TracebackType
from typing import Any, Self

from tests.etcd import packaged_etcd
from tests.launching import wait_until

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")  # envtest's own bundle has only the first
TOKEN = "lab-admin-token"
DEADLINE = 60.0


def missing_programs() -> list[str]:
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    missing = [name for name in PROGRAMS if not (assets and shutil.which(name, path=assets))]
    return missing + ([] if _find_kubectl() else ["kubectl"])


def _find_kubectl() -> str | None:
    return shutil.which("kubectl", path=f"{os.environ.get('KUBEBUILDER_ASSETS', '')}:{os.environ['PATH']}")


WHY_MISSING = f"the directory KUBEBUILDER_ASSETS, and PATH, do not have {', '.join(missing_programs())}"


class ControlPlane:
    """etcd, an API server and the controllers. `kubeconfig`: for kubectl."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.programs = Path(os.environ["KUBEBUILDER_ASSETS"])
        self.kubeconfig = directory / "kubeconfig"
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        clients, peers, self._port, controllers, scheduler = _free_ports(5)
        try:
            self._start_etcd(clients, peers)
            self._start_api_server(clients)
            self._start_client("kube-controller-manager", controllers, self.directory / "sa.key")
            self._start_client("kube-scheduler", scheduler)
            # Pods are refused until their service account is there.
            wait_until(lambda: "default" in self.names("serviceaccounts"), "the controllers", DEADLINE)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def kubectl(self, *words: str, text: str = "") -> str:
        argv = [str(_find_kubectl()), f"--kubeconfig={self.kubeconfig}", *words]
        return subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Ask the API server. A refusal is an answer as well: what a test wants may be gone already."""
        client = HTTPSConnection("127.0.0.1", self._port, timeout=30, context=_create_unverified_context())
        kind = "application/strategic-merge-patch+json" if "/status" in path else "application/merge-patch+json"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        headers["Content-Type"] = kind if method == "PATCH" else "application/json"
        try:
            client.request(method, path, None if body is None else json.dumps(body), headers)
            answer: dict[str, Any] = json.loads(client.getresponse().read())
        finally:
            client.close()
        return answer

    def items(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", kind, "--output=json"))["items"]
        return found

    def names(self, kind: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.items(kind)]

    def _start_etcd(self, clients: int, peers: int) -> None:
        self._etcd = f"http://127.0.0.1:{clients}"
        peer = f"http://127.0.0.1:{peers}"
        flags = {
            "data-dir": self.directory / "etcd",
            "listen-client-urls": self._etcd,
            "advertise-client-urls": self._etcd,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
        }
        self._start(packaged_etcd(), flags)

    def _start_api_server(self, etcd_port: int) -> None:
        key, public = self.directory / "sa.key", self.directory / "sa.pub"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
        tokens = self.directory / "tokens.csv"
        tokens.write_text(f"{TOKEN},admin,admin,system:masters\n")
        server = f"https://127.0.0.1:{self._port}"
        self.kubeconfig.write_text(json.dumps(_kubeconfig(server)))  # JSON is YAML
        flags = {
            "etcd-servers": f"http://127.0.0.1:{etcd_port}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": self._port,
            "cert-dir": self.directory / "certificates",
            "service-cluster-ip-range": "10.96.0.0/16",
            "service-account-issuer": "https://lab",
            "service-account-key-file": public,
            "service-account-signing-key-file": key,
            "authorization-mode": "RBAC",
            "token-auth-file": tokens,
            "kubelet-preferred-address-types": "InternalIP",  # names of machines are known in the lab only
        }
        self._start(self.programs / "kube-apiserver", flags)
        wait_until(lambda: _is_ready(server), "the API server", DEADLINE)

    def _start_client(self, name: str, port: int, key: Path | None = None) -> None:
        """`key`: for the tokens of service accounts."""
        flags: dict[str, object] = {
            "kubeconfig": self.kubeconfig,
            "authentication-kubeconfig": self.kubeconfig,
            "authorization-kubeconfig": self.kubeconfig,
            "bind-address": "127.0.0.1",
            "secure-port": port,
            "cert-dir": self.directory / f"certificates-{name}",
            "leader-elect": "false",
        }
        self._start(self.programs / name, flags | ({"service-account-private-key-file": key} if key else {}))

    def _start(self, program: str | Path, flags: dict[str, object]) -> None:
        argv = [str(program), *(f"--{flag}={value}" for flag, value in flags.items())]
        with (self.directory / f"{Path(program).name}.log").open("wb") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._processes.append(process)

    def _stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()


def _kubeconfig(server: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "admin", "user": {"token": TOKEN}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "admin"}}],
        "current-context": "lab",
    }


def _is_ready(server: str) -> bool:
    request = urllib.request.Request(f"{server}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=2, context=_create_unverified_context()) as answer:
            return bool(answer.read() == b"ok")
    except OSError:
        return False


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
