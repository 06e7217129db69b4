"""Slurm: a job is a batch script in which srun starts one flota per node."""

from __future__ import annotations

import os
import shlex
import sys
import time

from flota import errors
from flota.engines import EngineJob, Option
from flota.engines.interrupts import Interrupts
from flota.engines.tools import find_tool, run_tool, say
from flota.errors import FlotaError
from flota.errors.engines import ToolFailed
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.engines import Options

HINT = "run this on a machine from which Slurm jobs are submitted"
KILL_WAIT = 30.0  # Slurm's default for the time between SIGTERM and SIGKILL
RESERVE = 2.0  # for flota's own end, before Slurm's SIGKILL
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
POLL = 0.5  # seconds between two looks at the job's output and state
UNREACHABLE = "UNREACHABLE"
RUNS = (
    UNREACHABLE,
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "COMPLETING",
    "REQUEUED",
    "SUSPENDED",
    "STOPPED",
    "RESIZING",
    "SIGNALING",
)
# Options of sbatch that the script sets itself.
OWN = ("job-name", "nodes", "ntasks-per-node", "ntasks", "output", "error", "wrap", "export", "open-mode", "signal")
DIRECT = ("partition", "account", "gpus-per-node", "cpus-per-task", "mem", "array")

OPTIONS = (
    Option("partition", "text", "partition to run in [Slurm's default]", "NAME"),
    Option("time", "text", "time limit: 90m, 2h, 1d, or in Slurm's format [the partition's]", "TIME"),
    Option("account", "text", "account to charge", "NAME"),
    Option("gpus-per-node", "text", "GPUs of each node, as in 8 or a100:8", "N"),
    Option("cpus-per-task", "count", "CPUs of each node", "N"),
    Option("mem", "text", "memory of each node, as in 64G", "SIZE"),
    Option("array", "text", "an array of jobs, as in 0-9", "RANGE"),
    Option("sbatch", "env", "any other option of sbatch, as in --sbatch qos=high; can be repeated", "K=V", ()),
)


class BatchScript(NamedTuple):
    """What `flota submit slurm` creates: the script, and the file that it is written to."""

    text: str
    path: str
    token: str

    def __repr__(self) -> str:
        return f"BatchScript({self.path!r})"


class BatchJob(NamedTuple):
    """A job that Slurm has accepted."""

    number: str
    output: str

    def stop(self) -> None:
        """Ask every flota of the job to stop: workers save. A plain scancel kills when Slurm's KillWait is over.

        The script would queue a job again whose ranks have all saved.
        """
        run_tool(["scontrol", "update", f"JobId={self.number}", "Requeue=0"])
        run_tool(["scancel", "--signal=TERM", self.number])

    def kill(self) -> None:
        run_tool(["scancel", self.number])


def observe(job: EngineJob, options: Options) -> Options:  # noqa: ARG001  it is the same for all jobs
    """Add what the cluster says about itself, if there is one: --dry_run works without."""
    found = KILL_WAIT
    try:
        for line in run_tool(["scontrol", "show", "config"]).splitlines():
            if line.startswith("KillWait"):
                found = float(line.partition("=")[2].split()[0])
    except (FlotaError, ValueError, IndexError):
        pass
    return {**options, "kill_wait": found}


def plan(job: EngineJob, options: Options) -> BatchScript:
    log_dir = job.log_dir if job.log_dir.startswith("/") else f"{job.directory}/{job.log_dir}"
    log_dir = log_dir.partition("{")[0].rstrip("/")  # a directory per run is named when it is known
    words = [sys.executable, "-m", "flota", f"--nnodes={job.nodes}", *_added_words(job, options), *job.words]
    lines = [
        "#!/bin/sh",
        *(f"#SBATCH --{key}" + (f"={value}" if value else "") for key, value in _sbatch_options(job, options, log_dir)),
        "",
        "# One flota per node; it finds the other nodes through Slurm's variables. No shell may come between srun and",
        "# flota: it would not pass signals on. --kill-on-bad-exit would kill nodes that still save.",
        f"cd {shlex.quote(job.directory)} || exit",
        f"srun --ntasks-per-node=1 --kill-on-bad-exit=0{' --no-kill' if job.elastic or job.spares else ''} \\",
        f"  {shlex.join(words)}",
        "code=$?",
        "",
        "# 75: preempted, and all ranks have saved; or a node was lost. Queue the job again.",
        'if [ "$code" -eq 75 ] && scontrol requeue "$SLURM_JOB_ID"; then',
        "  sleep 60 # until Slurm ends this run",
        "fi",
        'exit "$code"',
        "",
    ]
    return BatchScript("\n".join(lines), f"{log_dir}/{job.name}.sbatch", job.token)


def _added_words(job: EngineJob, options: Options) -> list[str]:
    words = []
    if job.grace is None:
        words.append(f"--grace={max(options['kill_wait'] - RESERVE, 1):g}s")
    if job.stop_before and not job.preempt_signal:
        words.append("--preempt_signal=SIGUSR1")
    return words


def _sbatch_options(job: EngineJob, options: Options, log_dir: str) -> list[tuple[str, str]]:
    rows = [
        ("job-name", job.name),
        ("nodes", f"{job.least}-{job.started}" if job.elastic else str(job.started)),
        # With a range of nodes it would mean one task, and so one node.
        *([] if job.elastic else [("ntasks-per-node", "1")]),
        ("output", f"{log_dir}/slurm-{'%A_%a' if options['array'] else '%j'}.out"),
        ("open-mode", "append"),
    ]
    if options["time"]:
        rows.append(("time", slurm_time(options["time"])))
    for name in DIRECT:
        value = options[name.replace("-", "_")]
        if value:
            rows.append((name, str(value)))
    if job.elastic or job.spares:
        rows.append(("no-kill", ""))
    if job.stop_before:
        sent = job.preempt_signal or "SIGUSR1"
        rows.append(("signal", f"{sent.removeprefix('SIG')}@{job.stop_before:.0f}"))
    for key, value in options["sbatch"]:
        if key in OWN or key in DIRECT or key == "time":
            raise errors.Contradiction(f"--sbatch {key}={value}", "flota's own", f"use flota's flag for `{key}`")
        rows.append((key, value))
    for key, value in rows:
        if "\n" in f"{key}{value}":
            raise errors.BadValue(f"--{key}", value, "one line", f"--{key} NAME")
    return rows


def slurm_time(word: str) -> str:
    """A duration with a unit as Slurm writes it; anything else is Slurm's own already: `90` is 90 minutes."""
    number, unit = word[:-1], word[-1:]
    if unit not in UNITS:
        return word
    if not number.isdecimal():
        raise errors.BadValue("--time", word, "a time such as 90m, 2h, 1d or 1-12:00:00", "--time 2h")
    minutes, seconds = divmod(int(number) * UNITS[unit], 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def start(planned: BatchScript, environ: Mapping[str, str]) -> BatchJob:
    """Write the script beside the logs, and submit it. The token is in this environment, which sbatch passes on."""
    sbatch = find_tool("sbatch", HINT)
    os.makedirs(os.path.dirname(planned.path), exist_ok=True)
    with open(planned.path, "w", encoding="utf-8") as file:
        file.write(planned.text)
    answer = run_tool([sbatch, "--parsable", planned.path], env={**environ, "FLOTA_TOKEN": planned.token})
    number = answer.strip().partition(";")[0]
    pattern = next(line.partition("=")[2] for line in planned.text.splitlines() if line.startswith("#SBATCH --output="))
    job = BatchJob(number, pattern.replace("%j", number).replace("%A_%a", f"{number}_*"))
    say(f"submitted Slurm job {number}; output in {job.output}")
    say(f"`scancel {number}` stops it; workers get SIGTERM first, and can save")
    return job


def follow(job: BatchJob) -> int:
    """Show the job's output until it ends."""
    interrupts = Interrupts(job, f"Slurm job {job.number}")
    output = _Output(job.output)
    while True:
        state, code = job_state(job.number)
        output.print_new()
        if state not in RUNS:
            say(f"Slurm job {job.number} has ended: {state}")
            return code
        if interrupts.detaches():
            return 0
        time.sleep(POLL)


def job_state(number: str) -> tuple[str, int]:
    """The state of a job and its exit code: the highest of an array's jobs."""
    try:
        text = run_tool(["scontrol", "--oneliner", "show", "job", number])
    except ToolFailed as error:
        # Slurm forgets a job some minutes after its end. A controller that does not answer now may do so later.
        return ("UNKNOWN", 1) if "Invalid job id" in error.message else (UNREACHABLE, 0)
    rows = [
        dict(pair.partition("=")[::2] for pair in line.split() if "=" in pair) for line in text.splitlines() if line
    ]
    states = [row.get("JobState", "UNKNOWN") for row in rows]
    codes = [[int(part) for part in row.get("ExitCode", "0:0").split(":")] for row in rows]
    going = next((state for state in states if state in RUNS), "")
    worst = max((code or (128 + by if by else 0) for code, by in codes), default=1)
    state = going or next((state for state in states if state != "COMPLETED"), "COMPLETED")
    # A job that was cancelled before it began, or reached its time limit, has 0 as its exit code.
    return state, worst or int(state not in ("COMPLETED", *RUNS))


class _Output:
    """Prints what is added to the job's output, which may not exist yet."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read: dict[str, int] = {}

    def print_new(self) -> None:
        import glob

        for path in sorted(glob.glob(self._path)) if "*" in self._path else [self._path]:
            try:
                with open(path, "rb") as file:
                    file.seek(self._read.get(path, 0))
                    while data := file.read(1 << 16):
                        sys.stdout.buffer.write(data)
                    self._read[path] = file.tell()
            except FileNotFoundError:
                continue
        sys.stdout.flush()
