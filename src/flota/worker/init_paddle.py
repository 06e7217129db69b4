"""Paddle: calls its init_parallel_env and DataParallel. A single worker gets no group: Paddle has none of size one."""

from __future__ import annotations

import warnings
from typing import Any

import paddle

from flota.worker.environment import Env


def is_running() -> bool:
    return bool(paddle.distributed.is_initialized())


def init(env: Env) -> None:
    if env.world_size > 1:
        paddle.distributed.init_parallel_env()


def wrap(model: Any, options: dict[str, object]) -> Any:
    if is_running():
        return paddle.DataParallel(model, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Paddle warns that no launcher was used
        return paddle.DataParallel(model, **options)


def shutdown() -> None:
    paddle.distributed.destroy_process_group()
