"""Machines of a Kubernetes cluster whose pods are processes on hosts of a lab, without containers.

One thread does what a kubelet does on each machine: it starts the pods that the scheduler has bound to the machine, restarts
their containers as their policy says, reports how they end, and ends those that are deleted. It reads all pods several times
per second, which is enough for tests. Of volumes it has files of a ConfigMap. The names of pods are in the hosts' /etc/hosts.
"""

from __future__ import annotations

import base64
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.lab.hosts import Host, names
from tests.lab.kubernetes import ControlPlane

Object = dict[str, Any]

POLL = 0.2  # seconds
RENEWAL = 5.0  # seconds between two renewals of a machine's lease
RESTART = 1.0  # seconds until a container is restarted
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
FIELD = re.compile(r"metadata\.(annotations|labels)\['(.+)'\]")


def now(precision: str = "seconds") -> str:
    return datetime.now(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


class PodProcess:
    """A pod that runs on a host, or has run there."""

    def __init__(self, pod: Object, host: Host, directory: Path) -> None:
        self.pod, self.host = pod, host
        self.directory = directory / pod["metadata"]["uid"]
        self.directory.mkdir()
        self.log = self.directory / "container.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.began = ""
        self.ended = 0.0  # when the container ended that is to be restarted
        self.last: Object = {}  # the state of the container before this one
        self.restarts = 0
        self.kill_at: float | None = None
        self.over = False

    @property
    def path(self) -> str:
        meta = self.pod["metadata"]
        return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"

    @property
    def container(self) -> Object:
        found: Object = self.pod["spec"]["containers"][0]
        return found

    @property
    def name(self) -> str:
        """As the headless Service makes it."""
        spec = self.pod["spec"]
        return f"{spec.get('hostname', self.pod['metadata']['name'])}.{spec.get('subdomain', '')}"

    def start(self, env: dict[str, str]) -> None:
        words = [*self.container["command"], *self.container.get("args", [])]
        words = [re.sub(r"\$\$", "$", word) for word in words]
        self.began = now()
        with self.log.open("ab") as log:
            self.process = self.host.popen(
                words, env=env, cwd=self.directory, stdout=log, stderr=log, start_new_session=True
            )

    def ask_to_end(self, grace: float) -> None:
        """The first process of the container gets SIGTERM, as from a kubelet."""
        if self.kill_at is None and self.process:
            self.kill_at = time.monotonic() + grace
            self.process.send_signal(signal.SIGTERM)

    def status(self, state: Object, phase: str = "Running") -> Object:
        ready = "True" if phase == "Running" else "False"
        conditions = [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")]
        container = {
            "name": self.container["name"],
            "image": self.container["image"],
            "imageID": "",
            "restartCount": self.restarts,
            "ready": phase == "Running",
            "state": state,
            "lastState": self.last,
        }
        return {
            "phase": phase,
            "podIP": self.host.address,
            "podIPs": [{"ip": self.host.address}],
            "hostIP": self.host.address,
            "startTime": self.began,
            "conditions": [{**one, "lastTransitionTime": now()} for one in conditions],
            "containerStatuses": [container],
        }


class Kubelets:
    """One machine of the cluster per host."""

    def __init__(self, plane: ControlPlane, hosts: list[Host], directory: Path) -> None:
        self.plane, self.hosts, self.directory = plane, {host.name: host for host in hosts}, directory
        self.pods: dict[str, PodProcess] = {}  # by uid
        self._addresses: dict[str, str] = {}  # of pods, by name
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._server = self._serve_logs()

    def __enter__(self) -> Self:
        for name in self.hosts:
            self._register(name)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        self._server.shutdown()
        self._server.server_close()
        for one in self.pods.values():
            if one.process and one.process.poll() is None:
                one.process.kill()

    def running(self, job: str) -> dict[int, PodProcess]:
        """The pods of a job that run, by index."""
        found = [one for one in [*self.pods.values()] if one.process and one.process.poll() is None]
        labels = [(one, one.pod["metadata"]["labels"]) for one in found]
        own = [(one, each) for one, each in labels if each.get("batch.kubernetes.io/job-name") == job]
        return {int(each["batch.kubernetes.io/job-completion-index"]): one for one, each in own}

    # The machines.

    def _register(self, name: str) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        node["metadata"] |= {"labels": {"kubernetes.io/hostname": name}}  # type: ignore[operator]
        self.plane.call("POST", "/api/v1/nodes", node)
        room = {"cpu": "64", "memory": "64Gi", "pods": "50"}
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now(), "lastTransitionTime": now()}
        status = {
            "capacity": room,
            "allocatable": room,
            "conditions": [ready],
            # Where the API server asks for logs: this process, for all machines.
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._server.server_address[1]}},
        }
        self.plane.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
        self.plane.call("POST", LEASES, {**lease, "spec": self._lease(name)})

    def _lease(self, name: str) -> Object:
        return {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now("microseconds")}

    def _run(self) -> None:
        renewed = time.monotonic()
        while not self._stopped.wait(POLL):
            listed = self.plane.call("GET", "/api/v1/pods")["items"]
            for pod in listed:
                if pod["spec"].get("nodeName") in self.hosts:
                    self._follow(pod)
            if time.monotonic() > renewed + RENEWAL:
                renewed = time.monotonic()
                for name in self.hosts:
                    self.plane.call("PATCH", f"{LEASES}/{name}", {"spec": self._lease(name)})

    # The pods.

    def _follow(self, pod: Object) -> None:
        uid, deleted = pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"]
        one = self.pods.get(uid)
        if one is None:
            if deleted:
                self._forget(pod)
                return
            one = self.pods[uid] = PodProcess(pod, self.hosts[pod["spec"]["nodeName"]], self.directory)
            self._write_names(one)
            self._write_files(one)
            self._start(one)
        if deleted:
            one.ask_to_end(pod["metadata"].get("deletionGracePeriodSeconds", 30))
        assert one.process
        if one.process.poll() is None:
            if one.kill_at is not None and time.monotonic() > one.kill_at:
                one.process.kill()
        elif not one.over:
            self._on_exit(one, deleted=deleted)
        if one.over and deleted:
            self._forget(pod)

    def _start(self, one: PodProcess) -> None:
        one.start(self._environment(one))
        self._patch_status(one, one.status({"running": {"startedAt": one.began}}))

    def _on_exit(self, one: PodProcess, *, deleted: bool) -> None:
        assert one.process
        code = one.process.returncode
        said = one.log.read_text(errors="replace")[-2000:] if code else ""
        state = {"exitCode": code if code >= 0 else 128 - code, "reason": "Error" if code else "Completed"}
        state |= {"message": said, "startedAt": one.began, "finishedAt": now()}
        if code and not deleted and one.pod["spec"]["restartPolicy"] == "OnFailure":
            if not one.ended:
                one.ended = time.monotonic()
                one.last = {"terminated": state}
                one.restarts += 1
                self._patch_status(one, one.status({"waiting": {"reason": "CrashLoopBackOff"}}))
            elif time.monotonic() > one.ended + RESTART:
                one.ended = 0.0
                self._start(one)
            return
        one.over = True
        self._patch_status(one, one.status({"terminated": state}, "Failed" if code else "Succeeded"))

    def _patch_status(self, one: PodProcess, status: Object) -> None:
        self.plane.call("PATCH", f"{one.path}/status", {"status": status})

    def _forget(self, pod: Object) -> None:
        meta = pod["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        self.plane.call("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", options)

    def _environment(self, one: PodProcess) -> dict[str, str]:
        meta, programs = one.pod["metadata"], Path(sys.executable).parent
        env = {"PATH": f"{programs}:/usr/bin:/bin", "HOSTNAME": one.name.partition(".")[0]}
        env["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"
        for row in one.container.get("env", []):
            source = row.get("valueFrom", {})
            if "fieldRef" in source:
                kind, key = FIELD.fullmatch(source["fieldRef"]["fieldPath"]).groups()  # type: ignore[union-attr]
                env[row["name"]] = meta[kind][key]
            elif "secretKeyRef" in source:
                name, key = source["secretKeyRef"]["name"], source["secretKeyRef"]["key"]
                secret = self.plane.call("GET", f"/api/v1/namespaces/{meta['namespace']}/secrets/{name}")
                env[row["name"]] = base64.b64decode(secret["data"][key]).decode()
            else:
                env[row["name"]] = row["value"]
        return env

    def _write_names(self, one: PodProcess) -> None:
        self._addresses[one.name] = one.host.address
        rows = "".join(f"{address} {name}\n" for name, address in self._addresses.items())
        for host in self.hosts.values():
            host.etc_hosts(names(len(self.hosts)) + rows)

    def _write_files(self, one: PodProcess) -> None:
        """Files of a ConfigMap, where the container's working directory has them."""
        maps = {volume["name"]: volume["configMap"]["name"] for volume in _volumes(one.pod) if "configMap" in volume}
        for mount in one.container.get("volumeMounts", []):
            if mount["name"] in maps and "subPath" in mount:
                namespace = one.pod["metadata"]["namespace"]
                found = self.plane.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/{maps[mount['name']]}")
                path = one.directory / Path(mount["mountPath"]).relative_to(one.container["workingDir"])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(found["data"][mount["subPath"]])

    # Logs, for `kubectl logs`.

    def _serve_logs(self) -> ThreadingHTTPServer:
        key, certificate = self.directory / "key.pem", self.directory / "certificate.pem"
        words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=lab"]
        subprocess.run([*words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        kubelets = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                kubelets.answer_logs(self)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def answer_logs(self, request: BaseHTTPRequestHandler) -> None:
        """GET /containerLogs/NAMESPACE/POD/CONTAINER?follow=true"""
        _, _, _, name, *_ = request.path.split("/")
        one = next(one for one in reversed([*self.pods.values()]) if one.pod["metadata"]["name"] == name)
        request.send_response(200)
        request.send_header("Content-Type", "text/plain")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        with one.log.open("rb") as log:
            while not self._stopped.is_set():
                assert one.process
                over = one.process.poll() is not None or "follow=true" not in request.path
                data = log.read()
                if data:
                    request.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                if over:
                    break
                time.sleep(POLL)
        request.wfile.write(b"0\r\n\r\n")


def _volumes(pod: Object) -> list[Object]:
    found: list[Object] = pod["spec"].get("volumes", [])
    return found
