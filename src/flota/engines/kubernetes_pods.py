"""What the answers of Kubernetes mean: whether a job has ended, its exit code, and why pods do not start. Pure."""

from __future__ import annotations

from flota.engines.kubernetes_manifest import CONTAINER, INDEX
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ENDED = ("Complete", "Completed", "Failed")  # Completed: of a JobSet
NO_FLOTA = ("No module named flota", "executable file not found", "no such file or directory")
HINTS = {
    "Unschedulable": "no machine has room for it; it starts when one has",
    "ErrImagePull": "check --image",
    "ImagePullBackOff": "check --image",
    "InvalidImageName": "check --image",
}


class Trouble(NamedTuple):
    """Why a pod does not run, in one line. `final`: waiting does not help."""

    words: str
    hint: str
    final: bool


class Pod(NamedTuple):
    """A pod of the job, reduced to what following it needs."""

    name: str
    node: int
    instance: tuple[str, int]  # the pod's uid, and how often its container was restarted
    started: bool  # there is output
    running: bool
    code: int | None  # of the last container that has ended
    trouble: Trouble | None


class KubernetesJob(NamedTuple):
    exists: bool
    condition: str  # one of ENDED, or empty while the job runs
    reason: str
    pods: tuple[Pod, ...]  # in order of nodes

    @property
    def over(self) -> bool:
        return bool(self.condition) or not (self.exists or self.pods)

    @property
    def code(self) -> int:
        """The exit code of the node with the lowest number that failed; 0 if none did, or none is known."""
        return next((pod.code for pod in self.pods if pod.code), 0)


def read_status(answer: dict[str, Any]) -> KubernetesJob:
    """Read the job and its pods, as `kubectl get job,pods -o json` prints them."""
    items: list[dict[str, Any]] = answer.get("items", [])
    pods = sorted((_read_pod(item) for item in items if item["kind"] == "Pod"), key=lambda pod: pod.node)
    # Jobs that belong to a JobSet have its label as well.
    main = next((item for item in items if item["kind"] == "JobSet"), None)
    main = main or next((item for item in items if item["kind"] == "Job"), None)
    for condition in (main or {}).get("status", {}).get("conditions") or []:
        if condition["type"] in ENDED and condition["status"] == "True":
            reason = ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
            return KubernetesJob(True, condition["type"], reason, tuple(pods))  # noqa: FBT003
    return KubernetesJob(main is not None, "", "", tuple(pods))


def _read_pod(item: dict[str, Any]) -> Pod:
    metadata, status = item["metadata"], item.get("status", {})
    containers = status.get("containerStatuses") or [{}]
    container: dict[str, Any] = next((one for one in containers if one.get("name") == CONTAINER), {})
    state, last = container.get("state", {}), container.get("lastState", {})
    ended = state.get("terminated") or last.get("terminated")
    return Pod(
        name=metadata["name"],
        node=int(metadata.get("annotations", {}).get(INDEX, 0)),
        instance=(metadata["uid"], container.get("restartCount", 0)),
        started="running" in state or ended is not None,
        running="running" in state,
        code=ended["exitCode"] if ended else None,
        trouble=_find_trouble(metadata["name"], status, state, ended),
    )


def _find_trouble(
    name: str, status: dict[str, Any], state: dict[str, Any], ended: dict[str, Any] | None
) -> Trouble | None:
    said = (ended or {}).get("message", "")
    line = next((line for line in said.splitlines() if any(words in line for words in NO_FLOTA)), "")
    if ended and ended["exitCode"] and line and ("flota" in line or ended.get("reason") == "StartError"):
        hint = "the image has no flota: add --pip REQUIREMENT, or use another --image"
        return Trouble(f"{name}: {line.strip()}", hint, final=True)
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return _waits(name, condition.get("reason", ""), condition.get("message", ""))
    waiting = state.get("waiting", {})
    reason = waiting.get("reason", "")
    if reason in HINTS or reason.endswith("Error"):
        return _waits(name, reason, waiting.get("message", ""))
    return None


def _waits(name: str, reason: str, message: str) -> Trouble:
    said = message.strip().splitlines()
    return Trouble(f"{name}: {reason}{f': {said[0]}' if said else ''}", HINTS.get(reason, ""), final=False)
