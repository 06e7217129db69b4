"""What Slurm's variables say about the place of a process: a task of srun, or the shell of an allocation. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_RESERVED = 4294967290  # ids of steps that srun did not start: batch, interactive, extern …
MOST_COMPONENTS = 1024


def is_task(environ: Mapping[str, str]) -> bool:
    """Whether srun has started this process: then it is one node of a job already."""
    step = environ.get("SLURM_STEP_ID", "")
    return step.isdecimal() and int(step) < FIRST_RESERVED and bool(environ.get("SLURM_PROCID"))


def allocated_nodes(environ: Mapping[str, str]) -> list[int]:
    """Return the number of nodes of the job, or of each component of a heterogeneous one; empty if it is not known."""
    size = environ.get("SLURM_HET_SIZE", "")
    components = range(min(int(size), MOST_COMPONENTS) if size.isdecimal() else 0)
    found = [environ.get(f"SLURM_JOB_NUM_NODES_HET_GROUP_{number}", "") for number in components]
    # `srun … : …` outside of an allocation sets only the number of all nodes.
    found = found if all(found) and found else [environ.get("SLURM_JOB_NUM_NODES", "")]
    return [int(word) for word in found if word.isdecimal()]
