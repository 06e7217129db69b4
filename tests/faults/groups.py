"""Cgroups with a memory limit, version 1 or 2."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launching import wait_until

ROOT = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def limited_group(mebibytes: int) -> Iterator[Path]:
    """A new cgroup below the root of the memory hierarchy."""
    first = ROOT / "memory" if (ROOT / "memory").is_dir() else ROOT
    if not os.access(first / "cgroup.procs", os.W_OK) or not controls_memory(first):
        pytest.skip("no memory controller that this user may use")
    group = first / f"flota-test-{os.getpid()}"
    group.mkdir()
    try:
        old = first.name == "memory"
        limit = group / ("memory.limit_in_bytes" if old else "memory.max")
        limit.write_text(str(mebibytes << 20))
        if not old:
            (group / "memory.swap.max").write_text("0")
        yield group
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "an empty cgroup")
        group.rmdir()


def controls_memory(first: Path) -> bool:
    if first.name == "memory":
        return True
    try:
        if "memory" not in (first / "cgroup.controllers").read_text().split():
            return False
        (first / "cgroup.subtree_control").write_text("+memory")
    except OSError:
        return False
    return True
