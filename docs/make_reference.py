"""Writes what the documents take from the code: every flag, every variable of a worker, the supervisor's table.

python docs/make_reference.py            writes
python docs/make_reference.py --check    writes nothing, and ends with 1 where a document is out of step
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import get_args

from flota.cli.flags import ALIASES, ALONE, BY_NAME, DEPRECATED, FLAGS, GROUPS, UNSERVED, Alias, Flag
from flota.cli.ipu import IPU_FLAGS, REFUSED
from flota.cli.settings import NEVER_IN_ENVIRONMENT
from flota.frameworks import VARIABLES_OF, equip, interface_variables
from flota.job.plan import plan_workers
from flota.job.roster import Ports, Roster, Seat
from flota.job.spec import NO_DEVICES, Command, DeviceSet, JobSpec, LogSpec
from flota.supervise.events import Event
from flota.supervise.phases import PHASES
from flota.supervise.reactions import REACTIONS

DOCS = Path(__file__).parent

# The answers that depend on a flag's value, or on there being one machine only.
CONDITIONS = {
    "devices": "does this: devices to use, as listed in *_VISIBLE_DEVICES; cpu for none [all]; before `ipu` a number",
    "rank": "does this: below the number of machines, or -1; others are an error",
    "ips": "one address: the same as `--host`; several: the machines in order, the first serves on `--start_port` - 1",
    "standalone": "no effect: it is what flota does with one machine",
    "use-env": "does this: with `python -m flota.torch_launch`, `--local-rank` is not inserted",
}

MEANINGS = {
    "RANK": "the worker's number in the job",
    "LOCAL_RANK": "its number on this machine; always 0 with `--virtual-local-rank`",
    "WORLD_SIZE": "workers in the job",
    "LOCAL_WORLD_SIZE": "workers on this machine",
    "GROUP_RANK": "this machine's number",
    "GROUP_WORLD_SIZE": "machines in the job",
    "ROLE_RANK": "the worker's number in its role: the same as `RANK`",
    "ROLE_WORLD_SIZE": "workers in its role: the same as `WORLD_SIZE`",
    "ROLE_NAME": "`--role`",
    "MASTER_ADDR": "where rank 0 serves torch's store",
    "MASTER_PORT": "its port: a free one, another each round, held for rank 0 until the round ends",
    "TORCHELASTIC_RUN_ID": "`--job_id`",
    "TORCHELASTIC_RESTART_COUNT": "counted restarts so far",
    "TORCHELASTIC_MAX_RESTARTS": "how many there may be; 0 when restarting is off",
    "TORCHELASTIC_USE_AGENT_STORE": "`False`: rank 0 serves the store, not the launcher",
    "TORCHELASTIC_ERROR_FILE": "where a script that uses `flota.record` or torch's `@record` leaves its traceback",
    "TORCHELASTIC_SIGNALS_TO_HANDLE": "`--signals-to-handle`",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "kept when it is set already",
    "PADDLE_MASTER": "where rank 0 serves Paddle's store",
    "PADDLE_GLOBAL_SIZE": "workers in the job",
    "PADDLE_GLOBAL_RANK": "the worker's number in the job",
    "PADDLE_LOCAL_SIZE": "workers on this machine",
    "PADDLE_LOCAL_RANK": "the worker's number on this machine",
    "PADDLE_NNODES": "machines in the job",
    "PADDLE_CURRENT_ENDPOINT": "this worker's own address and port",
    "PADDLE_TRAINER_ID": "the worker's number in the job",
    "PADDLE_TRAINERS_NUM": "workers in the job",
    "PADDLE_RANK_IN_NODE": "the worker's number on this machine",
    "PADDLE_TRAINER_ENDPOINTS": "every worker's address and port, in rank order",
    "PADDLE_AUTO_CLUSTER": "always 0: auto-parallel is refused",
    "PADDLE_LOG_DIR": "`--log_dir` as a whole path",
    "POD_NAME": "this machine's name; kept when it is set already",
    "PADDLE_DISTRI_BACKEND": "`gloo` without devices, `xccl` on npu, mlu and other custom ones; or `--backend`",
    "FLAGS_selected_gpus": "the worker's device as an index into the visible ones; `FLAGS_selected_xpus` … likewise",
    "JAX_COORDINATOR_ADDRESS": "where rank 0 serves JAX's coordinator",
    "JAX_NUM_PROCESSES": "workers in the job; JAX does not read it, a script may",
    "JAX_PROCESS_ID": "the worker's number in the job; JAX does not read it, a script may",
    "OMPI_MCA_orte_hnp_uri": "makes `jax.distributed.initialize()` take the values below",
    "OMPI_COMM_WORLD_SIZE": "workers in the job",
    "OMPI_COMM_WORLD_RANK": "the worker's number in the job",
    "OMPI_COMM_WORLD_LOCAL_RANK": "its number on this machine",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "workers on this machine",
    "JAX_LOCAL_DEVICE_IDS": "the worker's device as an index into the visible ones, with several workers",
    "TF_CONFIG": "the cluster and the worker's place in it",
    "FLOTA_RANK": "the worker's number in the job",
    "FLOTA_LOCAL_RANK": "its number on this machine",
    "FLOTA_WORLD_SIZE": "workers in the job",
    "FLOTA_LOCAL_WORLD_SIZE": "workers on this machine",
    "FLOTA_NODE_RANK": "this machine's number",
    "FLOTA_NODES": "machines in the job",
    "FLOTA_ROLE": "what the worker is for; `trainer` in a job without [roles](../guides/roles.md)",
    "FLOTA_ROLE_RANK": "its number in its role",
    "FLOTA_ATTEMPT": "counted restarts so far",
    "FLOTA_ROUND": "the number of this start of the job's workers, from 0",
    "FLOTA_JOB_ID": "`--job_id`",
    "FLOTA_MASTER": "an address and a free port for the job's own use; the same port as `MASTER_PORT`",
    "FLOTA_DEVICE": "the worker's devices as listed in the visible ones, or `cpu`",
    "FLOTA_LOG_DIR": "`--log_dir` as a whole path",
    "FLOTA_GIVEN": "the names of all these variables: a flota inside a worker does not take them for its own settings",
    "GLOO_SOCKET_IFNAME": "the network interface for gloo, in torch and in Paddle; kept when it is set already",
    "NCCL_SOCKET_IFNAME": "the same for NCCL; kept when it is set already",
    "TP_SOCKET_IFNAME": "the same for torch's RPC; kept when it is set already",
    "NODE_RANK": "this machine's number, for accelerate and Lightning",
    "OMP_NUM_THREADS": "not touched when it is set already, unless `--threads` is given",
    "PYTHONUNBUFFERED": "output appears at once; kept when it is set already",
    "PYTHONFAULTHANDLER": "a crash leaves a traceback in the log; kept when it is set already",
    "CUDA_VISIBLE_DEVICES": "set when `--devices` or `--virtual-local-rank` narrows it; other kinds have their own",
}
TITLES = {"torch": "torch", "paddle": "Paddle", "jax": "JAX", "tensorflow": "TensorFlow"}


class OutOfStep(Exception):
    """The code has something that the documents cannot explain."""


def main(words: list[str]) -> int:
    checking = words == ["--check"]
    stale = 0
    for name, make in DOCUMENTS.items():
        path = DOCS / name
        old = path.read_text() if path.exists() else ""
        new = make(old)
        if old == new:
            continue
        stale += 1
        if checking:
            print(f"out of step: docs/{name}; run `make docs`")
        else:
            path.write_text(new)
            print(f"wrote docs/{name}")
    return 1 if checking and stale else 0


def filled(text: str, name: str, content: str) -> str:
    """The text with what stands between a part's two marks replaced."""
    begin, end = f"<!-- {name}: made by docs/make_reference.py -->", f"<!-- end of {name} -->"
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise OutOfStep(f"no marks for {name}")
    return f"{before}{begin}\n\n{content.strip()}\n\n{end}{after}"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


# Flags.


def flags_page(old: str) -> str:
    unknown = set(CONDITIONS) - set(BY_NAME)
    if unknown:
        raise OutOfStep(f"no such flags: {unknown}")
    groups = [f"## {title[0].upper()}{title[1:]}\n\n{flags_table(group)}" for group, title in GROUPS.items()]
    return filled(filled(old, "flags", "\n".join(groups)), "arguments behind ipu", ipu_tables())


def flags_table(group: str) -> str:
    rows = []
    for flag in FLAGS:
        if flag.group == group:
            rows.append(flag_row(flag))
            rows += [alias_row(alias) for alias in ALIASES if alias.of == flag.name]
    return table(("flag", "default", "variables", "from", "answer"), rows)


def flag_row(flag: Flag) -> tuple[str, ...]:
    value = f" {flag.metavar}" if flag.metavar else ""
    spelled = f"`--{flag.dest}{value}`"
    read = [] if flag.refused else flag.variables.split()
    if flag.dest not in NEVER_IN_ENVIRONMENT and not flag.refused:
        read.insert(0, f"FLOTA_{flag.dest.upper()}")
    return (
        f"{spelled}, `{flag.short}`" if flag.short else spelled,
        default_of(flag),
        ", ".join(f"`{name}`" for name in read),
        flag.origin,
        answer_of(flag),
    )


def ipu_tables() -> str:
    """What stands behind the word `ipu`, and what may not stand before it."""
    arguments = [(f"`--{flag.dest} {flag.metavar}`", flag.origin, f"does this: {flag.help}") for flag in IPU_FLAGS]
    flags_of: dict[str, list[str]] = {}
    for dest, why in REFUSED.items():
        flags_of.setdefault(why, []).append(f"`--{dest}`")
    refused = [(", ".join(names), f"refused: {why}") for why, names in flags_of.items()]
    return "\n".join([table(("argument", "from", "answer"), arguments), table(("before `ipu`", "answer"), refused)])


def alias_row(alias: Alias) -> tuple[str, ...]:
    names = ", ".join(f"`{name}`" for name in alias.variables.split())
    old = "; an old name, said once when it is used" if alias.deprecated else ""
    return (
        f"`--{underscored(alias.name)}`",
        "",
        names,
        alias.origin,
        f"same as `--{underscored(alias.of)}`{old}",
    )


def answer_of(flag: Flag) -> str:
    if flag.refused:
        return f"refused: {flag.refused}"
    if flag.note == ALONE:
        return f"does this: {flag.help}; no effect on one machine"
    if flag.note == UNSERVED:
        return f"does this: {flag.help}; no effect without parameter servers"
    if flag.note:
        return flag.note.removeprefix("has ")
    old = "; deprecated, said once when it is used" if flag.name in DEPRECATED else ""
    if flag.name in CONDITIONS:
        return f"{CONDITIONS[flag.name]}{old}"
    return f"does this: {flag.help}"


def default_of(flag: Flag) -> str:
    value = flag.default
    if flag.kind in ("switch", "bool"):
        return "off"
    if flag.kind == "duration" and value is not None:
        return f"`{value:g}s`"
    if flag.kind == "nodes":
        return "`1`"
    if value is None or value in ((), ""):
        return ""
    return f"`{','.join(value) if isinstance(value, tuple) else value}`"


def underscored(name: str) -> str:
    return name.replace("-", "_")


# Variables.


def example(frameworks: tuple[str, ...], devices: DeviceSet) -> tuple[JobSpec, Roster]:
    """Two workers on one machine, with ports that no reader takes for real ones."""
    command = Command("script", "train.py", (), "python")
    spec = JobSpec(command, 2, LogSpec("/job/log"), devices=devices, frameworks=frameworks, threads=1)
    return spec, Roster(0, 0, (Seat("", "gpu01", "127.0.0.1", Ports(("40001", "40002"), "40003", "40004", "40005")),))


ASTRAY = " (with several machines, where the hostname leads to 127.0.1.1 or nowhere)"
WITHOUT = NO_DEVICES
WITH = DeviceSet("gpu", "CUDA_VISIBLE_DEVICES", ("4", "5"), ("4", "5"), by_id=False)


def of_framework(name: str, frameworks: tuple[str, ...], devices: DeviceSet) -> dict[str, str]:
    spec, roster = example(frameworks, devices)
    return VARIABLES_OF[name](spec, roster, plan_workers(spec, roster, 0)[1])


def framework_table(name: str) -> str:
    """What a framework's variables are for rank 1 of 2; and which of them need devices, or --framework."""
    together = tuple(VARIABLES_OF)
    plain, on_devices = (of_framework(name, together, devices) for devices in (WITHOUT, WITH))
    alone = {**of_framework(name, (name,), WITH), **of_framework(name, (name,), WITHOUT)}
    rows = []
    for variable, value in {**plain, **on_devices, **alone}.items():
        where = ""
        if variable not in plain and variable not in on_devices:
            where = f" (only with `--framework {name}`)"
        elif variable not in plain:
            where = " (with devices)"
        elif variable not in on_devices:
            where = " (without devices)"
        rows.append(variable_row(variable, plain.get(variable, value), where))
    return table(("variable", "rank 1 of 2", "meaning"), rows)


def own_table() -> str:
    spec, roster = example((), WITHOUT)
    env = equip(spec, roster, plan_workers(spec, roster, 0)[1], {}).env
    narrowed = {"CUDA_VISIBLE_DEVICES": "5,4"}
    shown = {**env, "FLOTA_GIVEN": "RANK,LOCAL_RANK,…"}
    return table(
        ("variable", "rank 1 of 2", "meaning"),
        [
            *(variable_row(name, value, "") for name, value in shown.items()),
            *(variable_row(name, value, " (with `--devices 5,4`)") for name, value in narrowed.items()),
            *(variable_row(name, value, ASTRAY) for name, value in interface_variables("eth0").items()),
        ],
    )


def variable_row(name: str, value: str, where: str) -> tuple[str, ...]:
    if name not in MEANINGS:
        raise OutOfStep(f"{name} has no meaning in docs/make_reference.py")
    return f"`{name}`", f"`{value}`{where}", MEANINGS[name]


def variables_page(old: str) -> str:
    for name in VARIABLES_OF:
        old = filled(old, f"variables of {TITLES[name]}", framework_table(name))
    return filled(old, "variables of flota", own_table())


# The supervisor.


def architecture_page(old: str) -> str:
    rows = [(event.__name__, *(reaction(phase, event) for phase in PHASES)) for event in get_args(Event)]
    return filled(old, "the supervisor", table(("event", *PHASES), rows))


def reaction(phase: str, event: type) -> str:
    name = REACTIONS[phase, event]
    return "-" if name == "nothing" else name.replace("_", " ")


DOCUMENTS: dict[str, Callable[[str], str]] = {
    "reference/flags.md": flags_page,
    "reference/variables.md": variables_page,
    "architecture.md": architecture_page,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
