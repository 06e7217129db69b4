"""Whether failed workers are started again: one pure function of (cause, history, policy)."""

from __future__ import annotations

from flota.job.report import EXITED, NOT_STARTED, SHEPHERD_LOST, SIGNALLED
from flota.job.spec import RestartPolicy

# What a restart could cure. A program that cannot be run at all will not run the next time either.
RESTARTED = {EXITED: True, SIGNALLED: True, SHEPHERD_LOST: True, NOT_STARTED: False}


def should_restart(cause: str, attempt: int, policy: RestartPolicy, *, final: bool = False) -> bool:
    """N restarts are N + 1 runs. At elastic level 0 a failing node leaves, so nothing restarts in place; a role may say
    that its failures are final.
    """
    allowed = policy.enabled and policy.elastic_level != 0 and not final
    return RESTARTED[cause] and allowed and attempt < policy.limit
