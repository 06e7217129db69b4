"""What to write instead of flags of launchers that flota does not replace: mpirun, accelerate, deepspeed and others."""

WORKERS = "write --nproc_per_node N for the number of workers on each machine"
NODES = "write --nnodes N for the number of machines"
RANGE = "write --nnodes MIN:MAX for a number of machines that may vary"
DEVICES = "write --devices IDS, as in --devices 0,1"
MASTER = "write --master HOST:PORT with --nnodes N"
ONE_PER_DEVICE = "leave it out: flota starts one worker per visible device"

HINTS = {
    # mpirun, mpiexec, srun, horovodrun
    **dict.fromkeys(("-n", "-np", "--nprocs", "--num-proc", "--npernode", "--ntasks", "--ntasks-per-node"), WORKERS),
    **dict.fromkeys(("-H", "--host-list"), "write --hosts a,b:8"),
    **dict.fromkeys(("--machinefile", "-machinefile"), "write --hostfile FILE"),
    **dict.fromkeys(("--min-np", "--max-np", "--min-num-proc", "--max-num-proc"), RANGE),
    "--nodes": NODES,
    "--slots-per-host": WORKERS,
    "--allow-run-as-root": "leave it out",
    "--oversubscribe": "leave it out",
    # accelerate
    "--num-processes": f"{WORKERS}; accelerate counts those of all machines",
    "--num-machines": NODES,
    "--machine-rank": "write --rank N",
    "--main-process-ip": MASTER,
    "--main-process-port": MASTER,
    "--gpu-ids": DEVICES,
    "--multi-gpu": ONE_PER_DEVICE,
    "--num-cpu-threads-per-process": "write --threads N",
    "--config-file": "write flota's settings to flota.toml in the working directory",
    # deepspeed
    "--num-gpus": WORKERS,
    "--num-nodes": NODES,
    "--include": DEVICES,
    "--exclude": DEVICES,
    # scripts, and launchers of clusters
    "--world-size": "leave it out: it is --nproc_per_node times --nnodes",
    "--gpus-per-node": WORKERS,
    "--ngpus-per-node": WORKERS,
}


def hint_for(flag: str) -> str:
    """What to write instead of a flag, which may have its number attached, as in `-n4`; empty if it is unknown."""
    return HINTS.get(flag.rstrip("0123456789").replace("_", "-"), "")
