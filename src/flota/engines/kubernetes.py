"""Kubernetes: a job is an Indexed Job, or a JobSet, with one flota per pod. kubectl talks to the cluster."""

from __future__ import annotations

import json
import os
import subprocess
import time

from flota import errors
from flota.engines import EngineJob, Option
from flota.engines.interrupts import Interrupts
from flota.engines.kubernetes_manifest import (
    CONTAINER,
    LABEL,
    PLACEHOLDER,
    SentFile,
    fit_grace,
    job_name,
    make_job,
    make_parts,
    make_template,
)
from flota.engines.kubernetes_pods import KubernetesJob, Pod, read_status
from flota.engines.tools import find_tool, run_tool, say
from flota.engines.yaml_text import write_yaml
from flota.errors.engines import BadPodPatch, FileOutside, JobExists, NoImage, PodCannotRun, ToolFailed
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from flota.engines import Options

HINT = "install kubectl, and run this where it reaches the cluster; --dry_run prints what to create without it"
POLL = 1.0  # seconds between two looks at the job
PATIENCE = 60.0  # seconds without an answer of the cluster before following is given up
DRAIN = 5.0  # seconds for the rest of the output after the end
LOOKS = 3  # at a running container whose output has ended, before it is followed again
TERMINATED = 143

OPTIONS = (
    Option("image", "text", "image for the pods, with Python and flota installed, or use --pip", "IMAGE"),
    Option("namespace", "text", "namespace to run in [kubectl's]", "NAME"),
    Option("context", "text", "kubectl's context [the current one]", "NAME"),
    Option("fixed", "switch", "never run with fewer nodes than --nodes; without it, one may be missing for a while"),
    Option("gpus", "count", "GPUs of each pod", "N"),
    Option("gpu-resource", "text", "what the cluster calls its GPUs [nvidia.com/gpu]", "NAME", "nvidia.com/gpu"),
    Option("cpu", "text", "CPUs of each pod, as in 16 or 500m", "N"),
    Option("memory", "text", "memory of each pod, as in 64Gi", "SIZE"),
    Option(
        "file",
        "paths",
        "a file below this directory to copy into the pods with the script; can be repeated",
        "PATH",
        (),
    ),
    Option("pip", "text", "install this with pip in each pod first: a URL, or a path in the image", "REQUIREMENT"),
    Option("retries", "count", "how many times each pod may fail before Kubernetes ends the job [3]", "N", 3),
    Option(
        "restart-policy",
        "choice:on-failure,never",
        "on-failure restarts a failed flota in its pod, at once; never makes a new pod, by exit code [on-failure]",
        "POLICY",
        "on-failure",
    ),
    Option("jobset", "switch", "create a JobSet instead of a Job"),
    Option("pod-patch", "text", "a file with changes to the pods, as for kubectl patch", "FILE"),
)


class Manifest(NamedTuple):
    """What `flota submit kubernetes` creates. `main` owns `parts`."""

    text: str
    main: dict[str, Any]
    parts: list[dict[str, Any]]
    where: tuple[str, ...]  # kubectl's arguments

    def __repr__(self) -> str:
        return f"Manifest({self.main['metadata']['name']!r})"


class ClusterJob(NamedTuple):
    """A job that Kubernetes has accepted."""

    kind: str  # job or jobset
    name: str
    kubectl: tuple[str, ...]

    def call(self, *words: str, text: str = "") -> str:
        return run_tool([*self.kubectl, *words], text=text)

    def stop(self) -> None:
        """Delete it: every flota gets SIGTERM, and workers save."""
        self.call("delete", self.kind, self.name, "--wait=false", "--ignore-not-found")

    def kill(self) -> None:
        self.stop()
        self.call("delete", "pods", "--selector", self.selector, "--grace-period=1", "--wait=false")

    @property
    def selector(self) -> str:
        return f"{LABEL}={self.name}"

    def look(self) -> KubernetesJob:
        words = ("get", f"{self.kind},pods", "--selector", self.selector, "--output=json")
        return read_status(json.loads(self.call(*words)))


def observe(job: EngineJob, options: Options) -> Options:
    """Add the files to send, and the pods' template, which kubectl merges with --pod_patch."""
    if not options["image"]:
        raise NoImage
    files = _read_files(job, options["file"])
    template = make_template(job, options, job_name(job, jobset=options["jobset"]), files)
    if options["pod_patch"]:
        template = _patch(template, options["pod_patch"])
        fit_grace(template, job)
    return {**options, "files": files, "template": template}


def plan(job: EngineJob, options: Options) -> Manifest:
    where = [f"--{name}={options[name]}" for name in ("context", "namespace") if options[name]]
    name, files = job_name(job, jobset=options["jobset"]), options["files"]
    main = make_job(job, options, name, options["template"])
    shown = [*make_parts(options, name, PLACEHOLDER, files), main]
    return Manifest(write_yaml(shown), main, make_parts(options, name, job.token, files), tuple(where))


def _read_files(job: EngineJob, more: tuple[str, ...]) -> tuple[SentFile, ...]:
    """The script and the files of --file. A module, a program on PATH and an absolute path are the image's."""
    local = job.kind == "script" or (job.kind == "program" and "/" in job.target)
    script = [job.target] if local and not os.path.isabs(job.target) else []
    files: dict[str, SentFile] = {}
    for path in (*script, *more):
        full = os.path.normpath(os.path.join(job.directory, path))
        below = os.path.relpath(full, job.directory)
        if below.startswith("../"):
            raise FileOutside(path)
        try:
            with open(full, "rb") as file:
                files[below] = SentFile(below, file.read(), os.access(full, os.X_OK))
        except OSError as error:
            if path in script and isinstance(error, FileNotFoundError):
                raise errors.MissingScript(path, "") from None
            raise errors.UnreadableFile(
                "the script" if path in script else "--file", path, str(error.strerror)
            ) from None
    return tuple(files.values())


def _patch(template: dict[str, Any], path: str) -> dict[str, Any]:
    """kubectl knows how parts of a pod are merged, reads YAML, and does not ask the cluster."""
    kubectl = find_tool("kubectl", HINT)
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    words = ["patch", "--local", "--type=strategic", f"--patch-file={path}", "--filename=-", "--output=json"]
    try:
        patched: dict[str, Any] = json.loads(run_tool([kubectl, *words], text=json.dumps(pod)))
    except ToolFailed as error:
        raise BadPodPatch(path, error.message.partition(": ")[2]) from None
    unknown = [key for key in patched if key not in ("apiVersion", "kind", "metadata", "spec")]
    if unknown:
        raise BadPodPatch(path, f"`{unknown[0]}` is not a part of a pod")
    return {"metadata": patched["metadata"], "spec": patched["spec"]}


def start(planned: Manifest, environ: Mapping[str, str]) -> ClusterJob:  # noqa: ARG001  kubectl gets this environment
    """Create the job suspended, then what belongs to it, then let it run.

    Pods never wait for what is not there yet, and a failure in between leaves nothing behind.
    """
    main = planned.main
    name, kind = main["metadata"]["name"], main["kind"].lower()
    job = ClusterJob(kind, name, (find_tool("kubectl", HINT), *planned.where))
    create = ("create", "--filename=-", "--output=json")
    suspended = {**main, "spec": {"suspend": True, **main["spec"]}}
    try:
        created = json.loads(job.call(*create, text=json.dumps(suspended)))
    except ToolFailed as error:
        if "AlreadyExists" in error.message or "already exists" in error.message:
            raise JobExists(kind, name) from None
        raise
    owner = {"apiVersion": main["apiVersion"], "kind": main["kind"], "name": name, "uid": created["metadata"]["uid"]}
    parts = [{**part, "metadata": {**part["metadata"], "ownerReferences": [owner]}} for part in planned.parts]
    try:
        job.call(*create, text=json.dumps({"apiVersion": "v1", "kind": "List", "items": parts}))
        job.call("patch", kind, name, "--type=merge", '--patch={"spec":{"suspend":false}}')
    except BaseException:
        job.stop()
        raise
    say(f"created {kind} {name}: pods are listed by `kubectl get pods --selector {job.selector}`")
    say(f"`kubectl delete {kind} {name}` stops it, lets workers save, and removes all that belongs to it")
    return job


def follow(job: ClusterJob) -> int:
    """Show the output of node 0 until the job ends."""
    interrupts = Interrupts(job, f"{job.kind} {job.name}")
    output = _PodOutput(job)
    printed: set[str] = set()
    code, answered = 0, time.monotonic()
    try:
        while True:
            try:
                status = job.look()
                answered = time.monotonic()
            except ToolFailed:  # the cluster is unreachable for a moment, or Ctrl-C ended kubectl
                if time.monotonic() - answered > PATIENCE:
                    raise
            else:
                code = status.code or code
                _report_trouble(status.pods, printed)
                output.follow(status.pods)
                if status.over:
                    output.drain()
                    return _conclude(job, status, code)
            if interrupts.detaches():
                return 0
            time.sleep(POLL)
    finally:
        output.close()


def _report_trouble(pods: tuple[Pod, ...], printed: set[str]) -> None:
    for trouble in filter(None, (pod.trouble for pod in pods)):
        if trouble.final:
            raise PodCannotRun(trouble.words, trouble.hint)
        if trouble.words not in printed:
            printed.add(trouble.words)
            say(f"{trouble.words}{f' ({trouble.hint})' if trouble.hint else ''}")


def _conclude(job: ClusterJob, status: KubernetesJob, code: int) -> int:
    title = f"{job.kind} {job.name}"
    if not status.condition:
        say(f"{title} was deleted")
        return code or TERMINATED
    if status.condition != "Failed":
        say(f"{title} has completed")
        return 0
    say(f"{title} has failed: {status.reason}")
    return code or 1


class _PodOutput:
    """Prints what node 0 writes: the output of each container, one after the other."""

    def __init__(self, job: ClusterJob) -> None:
        self._job = job
        self._shown: tuple[str, int] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = 0  # looks since the output ended although the container runs

    def follow(self, pods: tuple[Pod, ...]) -> None:
        started = [pod for pod in pods if pod.node == 0 and pod.started]
        if not started or (self._process and self._process.poll() is None):
            return
        pod = next((pod for pod in started if pod.running), started[-1])
        if pod.instance != self._shown:
            self._start(pod)
        elif pod.running:
            self._ended += 1
            if self._ended >= LOOKS:  # kubectl lost its connection
                self._start(pod, "--since=2s")

    def _start(self, pod: Pod, *words: str) -> None:
        self._shown, self._ended = pod.instance, 0
        argv = [*self._job.kubectl, "logs", "--follow", pod.name, f"--container={CONTAINER}", *words]
        # A session of its own: Ctrl-C is for flota.
        self._process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def drain(self) -> None:
        if self._process:
            try:
                self._process.wait(DRAIN)
            except subprocess.TimeoutExpired:
                pass

    def close(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
