"""Reads this worker's place in its job from the variables of its launcher: flota, torchrun or Paddle's launcher."""

from __future__ import annotations

import os

from flota.errors.worker import BadVariable
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PADDLE_ROLES = {"PSERVER": "server", "HETER_TRAINER": "heter", "COORDINATOR": "coordinator"}


class Env(NamedTuple):
    """One worker's place in its job. Without a launcher, the process is the only worker."""

    rank: int = 0  # among the workers of its role
    local_rank: int = 0  # among those on this machine
    world_size: int = 1
    local_world_size: int = 1
    node_rank: int = 0
    nodes: int = 1
    device: str = ""  # its devices as listed in *_VISIBLE_DEVICES, `cpu` for none; empty if unknown
    role: str = "trainer"
    attempt: int = 0  # the number of counted restarts so far
    job_id: str = "default"
    master: str = ""  # an address of rank 0's machine and a port for the job; empty without other workers


def env() -> Env:
    """Read the environment. Each call reads it again: that takes microseconds, and a test may change the variables."""
    return read_env(os.environ)


def read_env(environ: Mapping[str, str]) -> Env:
    if "FLOTA_RANK" in environ:
        return _from_inner_launcher(environ) or _from_flota(environ)
    if "RANK" in environ and "WORLD_SIZE" in environ:
        return _from_torchrun(environ)
    if "PADDLE_TRAINER_ID" in environ:
        return _from_paddle(environ)
    return Env(device=_device(environ, 0, 1))


def _from_inner_launcher(environ: Mapping[str, str]) -> Env | None:
    """Read the variables of a launcher that a worker of flota has started; None if there is no such launcher.

    It has changed variables that flota set, which FLOTA_GIVEN lists. With parameter servers this is not checked:
    Paddle's variables then count trainers only, and workers do not start launchers.
    """
    given = environ.get("FLOTA_GIVEN", "").split(",")
    rank, world = environ["FLOTA_RANK"], environ.get("FLOTA_WORLD_SIZE", "1")
    for read, by_flota in (
        (_from_torchrun, {"RANK": rank, "WORLD_SIZE": world, "TORCHELASTIC_USE_AGENT_STORE": "False"}),
        (_from_paddle, {"PADDLE_TRAINER_ID": rank, "PADDLE_TRAINERS_NUM": world}),
    ):
        known = "TRAINING_ROLE" not in given and all(name in given and name in environ for name in by_flota)
        if known and any(environ[name] != value for name, value in by_flota.items()):
            return read(environ)
    return None


def _from_flota(environ: Mapping[str, str]) -> Env:
    """Read FLOTA_RANK and so on. A missing variable has its default, which is also its minimum."""
    values: dict[str, Any] = {}
    for field, default in Env._field_defaults.items():
        name = f"FLOTA_{field.upper()}"
        is_number = isinstance(default, int)
        values[field] = _number(environ, name, default, least=default) if is_number else environ.get(name, default)
    return Env(**values)


def _from_torchrun(environ: Mapping[str, str]) -> Env:
    """Read torchrun's variables. Without LOCAL_WORLD_SIZE, as when started by hand, there is one worker per machine."""
    world = _number(environ, "WORLD_SIZE", 1, least=1)
    local_rank, local_world = _number(environ, "LOCAL_RANK", 0), _number(environ, "LOCAL_WORLD_SIZE", 1, least=1)
    rank = _number(environ, "RANK", 0)
    role = environ.get("ROLE_NAME", "default")
    return Env(
        rank=rank,
        local_rank=local_rank,
        world_size=world,
        local_world_size=local_world,
        node_rank=_number(environ, "GROUP_RANK", rank // local_world),
        nodes=_number(environ, "GROUP_WORLD_SIZE", -(-world // local_world)),
        device=_device(environ, local_rank, local_world),
        role="trainer" if role == "default" else role,
        attempt=_number(environ, "TORCHELASTIC_RESTART_COUNT", 0),
        job_id=environ.get("TORCHELASTIC_RUN_ID", "default"),
        master=_endpoint(environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")),
    )


def _from_paddle(environ: Mapping[str, str]) -> Env:
    """Read Paddle's variables. Its spawn function sets none for machines: there is one."""
    rank, world = _number(environ, "PADDLE_TRAINER_ID", 0), _number(environ, "PADDLE_TRAINERS_NUM", 1, least=1)
    local_rank = _number(environ, "PADDLE_LOCAL_RANK", _number(environ, "PADDLE_RANK_IN_NODE", rank))
    local_world = _number(environ, "PADDLE_LOCAL_SIZE", world, least=1)
    chosen = environ.get("FLAGS_selected_gpus", "")
    return Env(
        rank=rank,
        local_rank=local_rank,
        world_size=world,
        local_world_size=local_world,
        node_rank=(rank - local_rank) // local_world,
        nodes=_number(environ, "PADDLE_NNODES", 1),
        device=_device(environ, int(chosen) if chosen.isdecimal() else local_rank, local_world),
        role=PADDLE_ROLES.get(environ.get("TRAINING_ROLE", ""), "trainer"),
        master=environ.get("PADDLE_MASTER") or environ.get("PADDLE_TRAINER_ENDPOINTS", "").partition(",")[0],
    )


def _number(environ: Mapping[str, str], name: str, default: int, *, least: int = 0) -> int:
    given = environ.get(name, "").strip()
    if not given:
        return default
    if not given.isdecimal() or int(given) < least:
        raise BadVariable(name, given, least)
    return int(given)


def _device(environ: Mapping[str, str], position: int, workers: int) -> str:
    """Return the worker's device under another launcher: one visible device per worker, or all for a single worker."""
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return "cpu" if environ.get("PADDLE_DISTRI_BACKEND") == "gloo" else ""
    devices = [device.strip() for device in listed.split(",") if device.strip() not in ("", "-1")]
    if not devices:
        return "cpu"
    return ",".join(devices) if workers == 1 else devices[position % len(devices)]


def _endpoint(address: str, port: str) -> str:
    if not address:
        return ""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
