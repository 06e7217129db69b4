"""Binds the current process to CPUs and prefers the memory of a NUMA node. Its children inherit both, across exec.
Runs in workers' interpreters as well: Python 3.8."""

from __future__ import annotations

import os
import sys
from _collections_abc import Iterable

from flota import libc

# Numbers of the system calls get_mempolicy and set_mempolicy, which the C library has no functions for.
GENERIC = (236, 237)
SYSTEM_CALLS = {"x86_64": (239, 238), "ppc64le": (260, 261), "aarch64": GENERIC, "riscv64": GENERIC}
MPOL_DEFAULT, MPOL_PREFERRED = 0, 1
MOST_NODES = 1024


def bind(cpus: Iterable[int], memory_node: int) -> None:
    """Raises OSError if a CPU is not allowed. Memory is only preferred: it makes no difference if that is refused."""
    os.sched_setaffinity(0, cpus)
    if memory_node >= 0:
        _set_memory(MPOL_PREFERRED, 1 << memory_node)
    else:
        _set_memory(MPOL_DEFAULT, 0)


def can_prefer_memory() -> bool:
    """Whether memory policies can be set: the kernel supports NUMA, and the container permits it. Docker's seccomp
    profile forbids both reading and setting them, so reading the policy is enough to find out."""
    calls = SYSTEM_CALLS.get(os.uname().machine)
    return sys.platform == "linux" and calls is not None and libc.call("syscall", calls[0], 0, 0, 0, 0, 0) == 0


def _set_memory(policy: int, nodes: int) -> None:
    calls = SYSTEM_CALLS.get(os.uname().machine)
    if calls:
        libc.call("syscall", calls[1], policy, nodes.to_bytes(MOST_NODES // 8, "little"), MOST_NODES)
