"""Where containers put it: as PID 1, with an unknown uid, with no HOME, with a /proc that is not its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import flota as flota_package
from tests.launching import COMMAND, assert_nobody_left, children, environment, wait_until

NEEDS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="namespaces need root")


def unshared(flota, *words, own_proc, **options):
    proc = ["--mount-proc"] if own_proc else []
    return flota.start(*words, command=["unshare", "--pid", "--fork", *proc, COMMAND], **options)


@NEEDS_ROOT
@pytest.mark.parametrize("own_proc", [True, False])
def test_as_pid_1_it_ends_with_the_workers_code(flota, own_proc):
    running = unshared(flota, "--nproc_per_node", 2, "fails.py", own_proc=own_proc, env={"FAIL_HOW": "7"})

    _, err = running.output()
    assert (running.wait(), "rank 1 failed first: exit code 7" in err) == (7, True), err


@NEEDS_ROOT
@pytest.mark.parametrize("behaviour", ["sleeps.py", "forks_daemon.py", "does_all.py"])
@pytest.mark.parametrize("own_proc", [True, False])
def test_as_pid_1_it_handles_sigterm_and_leaves_no_process(flota, behaviour, own_proc):
    running = unshared(flota, "--nproc_per_node", 2, "--grace", "0.2", behaviour, own_proc=own_proc)
    running.wait_for("ready.0.0", "ready.1.0")
    (node,) = children(running.pid)

    os.kill(node, signal.SIGTERM)

    assert running.wait() == 143
    assert_nobody_left()


@NEEDS_ROOT
def test_as_pid_1_it_reaps_unrelated_processes(flota):
    """A process that some exec'ed shell left behind becomes PID 1's child; it must not stay a zombie for the job's life."""
    running = unshared(flota, "sleeps.py", own_proc=True)
    running.wait_for("ready.0.0")
    (node,) = children(running.pid)
    enter = ["nsenter", "-t", str(node), "-p", "sh", "-c", "(sleep 0.2 &) ; exit 0"]

    subprocess.run(enter, check=True)

    wait_until(lambda: len(children(node)) == 1, "the stranger to be reaped")


def public_python() -> str:
    """An interpreter that every user may run; the one of these tests may lie in somebody's home."""
    for candidate in ("/usr/bin/python3", "/usr/local/bin/python3", os.path.realpath(sys.executable)):
        recent = [candidate, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        try:
            if subprocess.run(["setpriv", "--reuid", "54321", "--clear-groups", *recent], check=False).returncode == 0:
                return candidate
        except OSError:
            continue
    pytest.skip("no Python 3.11 that another user may run")


@NEEDS_ROOT
def test_an_unknown_uid_without_home_runs(flota, request):
    # Not below pytest's own directory, which each pytest that starts closes to others.
    flota.directory = Path(tempfile.mkdtemp(prefix="flota-"))
    request.addfinalizer(lambda: shutil.rmtree(flota.directory))
    flota.directory.chmod(0o777)
    code = "import os\nprint('uid', os.getuid(), os.environ.get('HOME'))"
    (flota.directory / "who.py").write_text(code)
    kept = {name: value for name, value in environment().items() if name not in ("HOME", "USER", "LOGNAME")}
    command = [
        "setpriv",
        "--reuid",
        "54321",
        "--regid",
        "54321",
        "--clear-groups",
        "/usr/bin/env",
        "-i",
        f"PATH={kept['PATH']}",
    ]
    shutil.copytree(Path(flota_package.__path__[0]), flota.directory / "src" / "flota")
    source = f"PYTHONPATH={flota.directory / 'src'}"

    running = flota.start("who.py", command=[*command, source, public_python(), "-m", "flota"])
    out, err = running.output()

    assert (running.wait(), out) == (0, "uid 54321 None\n"), err
