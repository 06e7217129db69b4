"""Reads what a platform has set in the environment about the job: one module per platform.

A platform is a module with `detect(environ)`, and a row in REGISTRY. It is imported only if its variables are set. If
several platforms are detected, the first in REGISTRY is used: what runs inside of another comes before it. Pure.
"""

from __future__ import annotations

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.platforms.detection import Hints as Hints
    from flota.platforms.detection import find_platforms as find_platforms
else:

    def __getattr__(name):
        return getattr(__import__("flota.platforms.detection", fromlist=[name]), name)


class Platform(NamedTuple):
    """One platform. It is recognised if all its variables are set and `detect` returns hints."""

    name: str  # of its module
    title: str
    variables: tuple[str, ...]
    files: tuple[str, ...] = ()  # paths, and variables that name a file: `detect` gets the content
    flags: tuple[str, ...] = ()  # variables that flota reads as flags, wherever they come from
    one_console: bool = False  # the output of all nodes ends in one place


TORCHRUN = (
    *("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    *("PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT"),
)
PADDLE = ("PADDLE_NNODES", "PADDLE_MASTER", "PADDLE_SERVER_NUM", "PADDLE_TRAINER_NUM")
CLUSTER = "KUBERNETES_SERVICE_HOST"
HOSTS = "/etc/hosts"  # where Kubernetes writes the full name of a pod, which has its Service in it
REGISTRY = (
    # Most of what these set is read as flags.
    Platform("paddlecloud", "PaddleCloud", ("PADDLE_TRAINERS", "POD_IP", "PADDLE_TRAINER_ID", "TRAINER_PORTS_NUM")),
    Platform("kubeflow", "Kubeflow", ("PET_NNODES", CLUSTER), flags=TORCHRUN),
    Platform("paddlejob", "PaddleJob", ("PADDLE_JOB_ID", "PADDLE_MASTER", "PADDLE_NNODES", CLUSTER), flags=PADDLE),
    # Programs that start processes, often inside of one of the others.
    Platform("jsrun", "jsrun", ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"), one_console=True),
    Platform(
        "openmpi",
        "Open MPI",
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        one_console=True,
    ),
    Platform("prrte", "PRRTE", ("PMIX_RANK", "PMIX_NAMESPACE"), one_console=True),
    # Services.
    Platform("sagemaker", "SageMaker", ("SM_HOSTS", "SM_CURRENT_HOST")),
    Platform("azureml", "Azure ML", ("AZUREML_NODE_COUNT", "NODE_RANK", "MASTER_ADDR")),
    Platform("paidlc", "PAI-DLC", ("NPROC_PER_NODE", "MASTER_ADDR", "RANK", "WORLD_SIZE")),
    Platform("skypilot", "SkyPilot", ("SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS")),
    Platform("dstack", "dstack", ("DSTACK_NODE_RANK", "DSTACK_MASTER_NODE_IP")),
    # Kinds of Kubernetes. Pods of the first ones may be pods of an Indexed Job as well.
    Platform("leaderworkerset", "LeaderWorkerSet", ("LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX")),
    Platform("volcano", "Volcano", ("VC_TASK_INDEX",)),
    Platform("tpu", "TPU", ("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES")),
    Platform("jobset", "JobSet", ("JOB_COMPLETION_INDEX", CLUSTER), files=(HOSTS,)),
    Platform("indexedjob", "Indexed Job", ("JOB_COMPLETION_INDEX", CLUSTER), files=(HOSTS,)),
    # Schedulers.
    Platform("slurm", "Slurm", ("SLURM_JOB_ID",), one_console=True),
    Platform("lsf", "LSF", ("LSB_JOBID",)),
    Platform("pbs", "PBS", ("PBS_JOBID", "PBS_NODEFILE"), files=("PBS_NODEFILE",)),
)


def find_marked(environ: Mapping[str, str]) -> list[Platform]:
    """Return the platforms whose variables are set. Inside a worker of flota, these are for the parent."""
    rows = REGISTRY if "FLOTA_GIVEN" not in environ else ()
    return [row for row in rows if all(map(environ.get, row.variables))]
