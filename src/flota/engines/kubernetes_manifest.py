"""The objects of a job on Kubernetes: an Indexed Job or a JobSet, and what its pods need. Pure."""

from __future__ import annotations

import base64
import math
import re

from flota import errors
from flota.engines import EngineJob
from flota.errors.engines import FilesTooLarge
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flota.engines import Options

    Object = dict[str, Any]

PORT = 29400
GRACE = 30.0  # flota's default
RESERVE = 2  # seconds for flota's own end, before the kubelet's SIGKILL
LOST_AFTER = 30  # seconds after which the pods of a node that is not ready are replaced; the default is 300
LIMIT = 1 << 20  # bytes of a ConfigMap
WORK = "/job"  # where the files are in the pods
CONTAINER = "flota"
REPLICATED_JOB = "node"  # of a JobSet
LABEL = "flota/job"
INDEX = "batch.kubernetes.io/job-completion-index"
PLACEHOLDER = "(the token: a random text without spaces)"  # flota refuses it, because of the spaces
# pip needs a shell, which then becomes flota: a shell between the kubelet and flota would not pass signals on.
INSTALL = 'python3 -m pip install --quiet --root-user-action=ignore "$0" && exec python3 -m flota "$@"'
JOB, JOB_SET = ("batch/v1", "Job"), ("jobset.x-k8s.io/v1alpha2", "JobSet")


class SentFile(NamedTuple):
    """A file that pods get: its path, below the directory of the job, and its content."""

    path: str
    content: bytes
    executable: bool = False


def job_name(job: EngineJob, *, jobset: bool) -> str:
    """The job's name as Kubernetes accepts it: a label of DNS that begins with a letter, and short enough for the
    host names of all pods."""
    name = re.sub(r"[^a-z0-9]+", "-", job.name.lower()).strip("-")
    if not name:
        raise errors.BadValue("--job_id", job.name, "a name with letters a to z or digits", "--job_id train")
    name = name if name[0].isalpha() else f"job-{name}"
    return name[: 63 - len(_host("", job.started - 1, jobset=jobset))].rstrip("-")


def _host(name: str, index: int, *, jobset: bool) -> str:
    return f"{name}-{REPLICATED_JOB}-0-{index}" if jobset else f"{name}-{index}"


def least_nodes(job: EngineJob, options: Options) -> int:
    """A job of N nodes continues with one less while a pod is replaced, unless its size is fixed or it has spares."""
    if job.elastic and options["fixed"]:
        raise errors.Contradiction("--fixed", f"--nodes {job.nodes}", "the second lets the number vary")
    return job.least if job.elastic or job.spares or options["fixed"] else max(1, job.most - 1)


def pod_grace(job: EngineJob) -> int:
    return math.ceil(max(GRACE if job.grace is None else job.grace, job.preempt_timeout or 0)) + RESERVE


def fit_grace(template: Object, job: EngineJob) -> None:
    """Make flota's grace fit that of a pod whose own was patched."""
    given = template["spec"].get("terminationGracePeriodSeconds", 0)
    if given >= pod_grace(job):
        return
    if job.grace is not None or job.preempt_timeout:
        shorter = f"terminationGracePeriodSeconds of {given}"
        raise errors.Contradiction(f"--pod_patch with a {shorter}", "flota's own grace", "the pods' must be 2 s longer")
    for container in template["spec"]["containers"]:
        if container["name"] == CONTAINER:
            container["args"] = [f"--grace={max(given - RESERVE, 1)}s", *container["args"]]


def make_template(job: EngineJob, options: Options, name: str, files: tuple[SentFile, ...]) -> Object:
    """What each pod is like. No shell comes between the kubelet and flota, unless pip has to run first."""
    labels = {LABEL: name}
    pip, jobset = options["pip"], options["jobset"]
    container: Object = {
        "name": CONTAINER,
        "image": options["image"],
        "command": ["sh", "-c", INSTALL, _literal(pip)] if pip else ["python3", "-m", "flota"],
        "args": [_literal(word) for word in job.words],
        **({"workingDir": WORK} if files else {}),
        "env": _env(name, job, options),
        "ports": [{"name": "master", "containerPort": PORT}],
        **_resources(options),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108  of the pod
    }
    volumes: list[Object] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    if files:
        # A ConfigMap is read-only, and logs are written beside the script: so single files in a directory of the pod.
        container["volumeMounts"] += [
            {"name": "work", "mountPath": WORK},
            *({"name": "files", "mountPath": f"{WORK}/{path}", "subPath": key} for key, path in _keys(files)),
        ]
        mode = {"defaultMode": 0o755} if any(file.executable for file in files) else {}
        volumes += [{"name": "work", "emptyDir": {}}, {"name": "files", "configMap": {"name": name, **mode}}]
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    lost = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_AFTER}
    spec: Object = {
        "restartPolicy": "Never" if options["restart_policy"] == "never" else "OnFailure",
        **({} if jobset else {"subdomain": name}),
        "terminationGracePeriodSeconds": pod_grace(job),
        "enableServiceLinks": False,
        "topologySpreadConstraints": [{**spread, "labelSelector": {"matchLabels": labels}}],
        "tolerations": [{"key": f"node.kubernetes.io/{state}", **lost} for state in ("not-ready", "unreachable")],
        "containers": [container],
        "volumes": volumes,
    }
    return {"metadata": {"labels": labels}, "spec": spec}


def _literal(word: str) -> str:
    """A word that Kubernetes passes on as it is: it replaces $(NAME) in arguments."""
    return word.replace("$", "$$") if "$(" in word or "$$" in word else word


def _env(name: str, job: EngineJob, options: Options) -> list[Object]:
    """The number of nodes is in no variable of Kubernetes."""
    least = least_nodes(job, options)
    master = f"{_host(name, 0, jobset=options['jobset'])}.{name}:{PORT}"
    index = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    return [
        {"name": "FLOTA_MASTER", "value": master},
        {"name": "FLOTA_NNODES", "value": str(job.most) if least == job.most else f"{least}:{job.most}"},
        {"name": "FLOTA_RANK", "valueFrom": index},
        {"name": "FLOTA_TOKEN", "valueFrom": {"secretKeyRef": {"name": name, "key": "token"}}},
        # `kubectl logs --selector` shows all pods on one console.
        *([{"name": "FLOTA_SHARED_CONSOLE", "value": "true"}] if job.most > 1 else []),
    ]


def _resources(options: Options) -> Object:
    wanted: Object = {key: options[key] for key in ("cpu", "memory") if options[key]}
    gpus = {options["gpu_resource"]: options["gpus"]} if options["gpus"] else {}
    requests = {"requests": wanted} if wanted else {}
    return {"resources": {**requests, "limits": {**wanted, **gpus}}} if wanted or gpus else {}


def make_job(job: EngineJob, options: Options, name: str, template: Object) -> Object:
    """The object that owns the others: deleting it deletes them."""
    spec: Object = {"completionMode": "Indexed", "completions": job.started, "parallelism": job.started}
    if options["restart_policy"] == "never":
        spec |= {"backoffLimitPerIndex": options["retries"], "podFailurePolicy": _failure_policy()}
    else:
        spec["backoffLimit"] = options["retries"] * job.started
    if least_nodes(job, options) < job.started:
        # Node 0 serves the master and is the last to end: a pod that is still being replaced then is not needed.
        spec["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    spec["template"] = template
    if not options["jobset"]:
        return _object(JOB, name, options, {"spec": spec})
    replicated = {"name": REPLICATED_JOB, "replicas": 1, "template": {"spec": spec}}
    return _object(JOB_SET, name, options, {"spec": {"replicatedJobs": [replicated]}})


def _failure_policy() -> Object:
    def on_exit(action: str, code: int) -> Object:
        codes = {"containerName": CONTAINER, "operator": "In", "values": [code]}
        return {"action": action, "onExitCodes": codes}

    disrupted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {"rules": [on_exit("FailJob", errors.USAGE), on_exit("Ignore", errors.TRY_AGAIN), disrupted]}


def make_parts(options: Options, name: str, token: str, files: tuple[SentFile, ...]) -> list[Object]:
    """What the pods refer to: the token, the files, and the name of the first pod."""
    parts = [_object(("v1", "Secret"), name, options, {"stringData": {"token": token}})]
    if files:
        parts.append(_object(("v1", "ConfigMap"), name, options, _file_data(files)))
    if not options["jobset"]:  # which makes its own
        # Nodes look for the first one before it is ready.
        service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {LABEL: name}}
        service |= {"ports": [{"name": "master", "port": PORT}]}
        parts.append(_object(("v1", "Service"), name, options, {"spec": service}))
    return parts


def _object(kind: tuple[str, str], name: str, options: Options, content: Object) -> Object:
    where = {"namespace": options["namespace"]} if options["namespace"] else {}
    metadata = {"name": name, **where, "labels": {LABEL: name}}
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, **content}


def _file_data(files: tuple[SentFile, ...]) -> Object:
    size = sum(len(file.content) for file in files)
    if size > LIMIT:
        raise FilesTooLarge(size)
    found: Object = {"data": {}, "binaryData": {}}
    for (key, _), file in zip(_keys(files), files, strict=True):
        try:
            found["data"][key] = file.content.decode()
        except UnicodeDecodeError:
            found["binaryData"][key] = base64.b64encode(file.content).decode()
    return {kind: entries for kind, entries in found.items() if entries}


def _keys(files: tuple[SentFile, ...]) -> list[tuple[str, str]]:
    """A key for each file, and its path: keys have no slashes."""
    keys: dict[str, str] = {}
    for file in files:
        key = plain = re.sub(r"[^\w.-]", "_", file.path.replace("/", "."), flags=re.ASCII)
        while key in keys:
            key = f"{len(keys)}.{plain}"
        keys[key] = file.path
    return list(keys.items())
