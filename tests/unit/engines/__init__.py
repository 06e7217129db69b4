"""A job as every engine gets it."""

from flota.engines import EngineJob

JOB = EngineJob(
    words=("--nproc_per_node=8", "train.py", "--name", "it's"),
    least=4,
    most=4,
    job_id="default",
    kind="script",
    target="train.py",
    directory="/home/alice/my work",
    log_dir="log",
    grace=None,
    preempt_signal="",
    stop_before=None,
    token="secret-token",
)
