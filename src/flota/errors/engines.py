"""Errors of engines, which start nodes on other machines."""

from __future__ import annotations

from flota.errors import TRY_AGAIN, FlotaError, TemplateError


class UnknownEngine(FlotaError):
    def __init__(self, word: str, known: list[str]) -> None:
        words = f"unknown engine `{word}`" if word else "flota submit needs an engine"
        super().__init__(
            f"{words}: expected one of {', '.join(known)}", f"run `flota submit {known[0]} --nodes 2 train.py`"
        )


class RunsOncePerTask(FlotaError):
    def __init__(self, command: str, platform: str, count: int) -> None:
        runs = f"{count} times" if count else "once per task"
        super().__init__(
            f"{command} cannot be used here: {platform} runs this command {runs}, and each would start a job",
            "run it once, on the machine from which you submit jobs; here, `flota train.py` joins the other tasks",
        )


class ChosenByEngine(TemplateError[str, str]):
    message = "{0} cannot be given: {1} chooses it"
    hint = "use --nodes for the number of nodes, and leave the rest out"


class NotInSlurm(TemplateError[str, str]):
    message = "{0} needs {1}"
    hint = "run `flota submit slurm --time 2h train.py`, or in a terminal `salloc --time 2:00:00 flota --srun train.py`"


class MissingTool(TemplateError[str, str]):
    message = "`{0}` is not on PATH"
    hint = "{1}"


class ToolFailed(FlotaError):
    def __init__(self, tool: str, why: str) -> None:
        super().__init__(f"{tool.rpartition('/')[2]} failed: {why}", f"run `{tool.rpartition('/')[2]} --help`")


class MissingRay(FlotaError):
    def __init__(self) -> None:
        super().__init__(
            "Ray is not installed",
            "run `pip install ray==VERSION`, with the cluster's version; or `pip install '.[ray]'` in a clone of flota",
        )


class NoRayCluster(TemplateError[str, str]):
    message = "no Ray cluster at `{0}`: {1}"
    hint = "set RAY_ADDRESS or --address to HOST:PORT, as `ray start --head` printed it"


class RayFailed(FlotaError):
    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(f"Ray failed: {why}", hint or "flota must be installed on all nodes of the Ray cluster")


class NoRoom(TemplateError[str, str]):
    exit_code = TRY_AGAIN
    message = "no room after {1} s: need {0}"
    hint = "use fewer --nodes or --gpus, --pack to allow several nodes on one host, or a longer --wait"


class NoImage(TemplateError[()]):
    message = "flota submit kubernetes needs an image"
    hint = "add --image IMAGE, with Python and flota installed; or add --pip REQUIREMENT to install flota"


class FileOutside(TemplateError[str]):
    message = "`{0}` is not below the current directory, so it cannot be sent"
    hint = "run flota in a directory that contains it; an absolute script path refers to a file in the image"


class FilesTooLarge(FlotaError):
    def __init__(self, size: int) -> None:
        words = f"the job's files total {size} bytes, but a ConfigMap holds at most 1 MiB"
        super().__init__(words, "build an image that contains them, and give the script's absolute path in it")


class BadPodPatch(TemplateError[str, str]):
    message = "cannot apply `{0}` to the pods: {1}"
    hint = "write a partial pod manifest with `metadata` and `spec` at the top level"


class JobExists(TemplateError[str, str]):
    message = "{0} `{1}` already exists"
    hint = "run `kubectl delete {0} {1}`, or give this one another --job_id"


class PodCannotRun(FlotaError):
    exit_code = 1
