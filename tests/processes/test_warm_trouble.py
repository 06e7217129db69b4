"""What may go wrong while interpreters are parked costs the warmth, and nothing else: no restart, no orphan."""

from __future__ import annotations

import os
import signal

import pytest

from tests.launching import assert_nobody_left, children, wait_until
from tests.processes.test_warm import here  # noqa: F401  a fixture

# Works until it is told to fail, once.
WAITS = (
    "import flota, os, sys, time\nprint('attempt', os.environ['FLOTA_ATTEMPT'], flush=True)\nflota.heartbeat(1)\n"
    "while os.environ['FLOTA_ATTEMPT'] == '0' and not os.path.exists('go'):\n    time.sleep(0.02)\n"
    "sys.exit(os.environ['FLOTA_ATTEMPT'] == '0')"
)


@pytest.fixture
def says(here):  # noqa: F811
    """Whether flota has said something."""

    def said(words, times=1):
        return any(path.read_text().count(words) >= times for path in (here / "log").glob("default.*.log"))

    return said


def test_a_parked_interpreter_that_ends_is_replaced(flota, here, says):  # noqa: F811
    (here / "jax.py").touch()
    (here / "train.py").write_text(f"import sys\nprint('jax' in sys.modules, flush=True)\n{WAITS}")
    running = flota.start("--warm", "jax", "--max_restart", 1, "--nproc_per_node", 2, "train.py")
    wait_until(lambda: says("2 of 2 interpreters are ready"), "interpreters")
    [standby, *_] = [pid for shepherd in running.shepherds() for pid in children(shepherd) if is_parked(pid)]

    os.kill(standby, signal.SIGKILL)
    wait_until(lambda: says("the parked interpreter exited; until another one is ready"), "that to be noticed")
    wait_until(lambda: says("2 of 2", times=2), "other interpreters")
    (here / "go").touch()

    assert running.wait() == 0
    assert [flota.log(rank) for rank in range(2)] == ["False\nattempt 0\nTrue\nattempt 1\n"] * 2
    assert_nobody_left(spared=flota.before)


def is_parked(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return b"FLOTA_PARK=" in file.read()


@pytest.mark.parametrize("changes", [False, True], ids=["as it was", "changed meanwhile"])
def test_a_restart_need_not_wait_for_imports_that_go_on(flota, here, says, changes):  # noqa: F811
    """The parked interpreter is still at it when it becomes a worker."""
    (here / "jax.py").write_text(
        "import os, time\nos.mkdir('importing')\nwhile not os.path.exists('imported'):\n    time.sleep(0.02)\n"
    )
    (here / "train.py").write_text(f"import sys\nprint('jax' in sys.modules, flush=True)\n{WAITS}")
    running = flota.start("--warm", "jax", "--max_restart", 1, "train.py")
    running.wait_for("importing")
    if changes:
        (here / "jax.py").write_text("CHANGED = True")
    (here / "go").touch()
    wait_until(lambda: says("restart"), "the restart")
    (here / "imported").touch()

    assert running.wait() == 0
    assert flota.log(0) == f"False\nattempt 0\n{not changes}\nattempt 1\n"
    assert says("jax.py` has changed since it was imported") is changes
    assert not says("cold start: \n")


@pytest.mark.parametrize(("when", "victim"), [("parked", "flota"), ("at work", "flota"), ("at work", "its shepherd")])
def test_parked_interpreters_leave_no_orphan(flota, here, says, when, victim):  # noqa: F811
    """Nor do the workers that they become, and what these start in sessions of their own."""
    (here / "jax.py").touch()
    (here / "train.py").write_text(
        "import flota, os, subprocess, sys, time\nsubprocess.Popen(['sleep', '97'], start_new_session=True)\n"
        "flota.heartbeat(1)\nattempt = os.environ['FLOTA_ATTEMPT']\n"
        "open(f'works.{attempt}.{os.environ[\"RANK\"]}', 'w').close()\n"
        "while attempt == '1' or not os.path.exists('go'):\n    time.sleep(0.02)\nsys.exit(3)"
    )
    running = flota.start("--warm", "jax", "--max_restart", 1, "--nproc_per_node", 2, "train.py")
    wait_until(lambda: says("2 of 2 interpreters are ready"), "interpreters")
    if when == "at work":
        (here / "go").touch()
        running.wait_for("works.1.0", "works.1.1")

    for pid in [running.pid] if victim == "flota" else running.shepherds():
        os.kill(pid, signal.SIGKILL)

    assert running.wait() != 0
    assert_nobody_left(spared=flota.before)


@pytest.mark.parametrize("ending", ["well", "killed"])
def test_what_an_import_leaves_running_ends_with_flota(flota, here, ending):  # noqa: F811
    """A daemon, and a child, of an import in the interpreter that was to be forked."""
    (here / "daemons.py").write_text(
        "import os, subprocess, time\nsubprocess.Popen(['sleep', '97'])\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(98)\n    os._exit(0)\n"
        "os.wait()\n"
        + ("" if ending == "well" else "if 'RANK' not in os.environ:\n    os.mkdir('importing')\n    time.sleep(99)\n")
    )
    (here / "train.py").write_text("print('runs')")
    running = flota.start("--warm", "daemons", "--nproc_per_node", 2, "train.py")
    if ending == "killed":
        running.wait_for("importing")
        os.kill(running.pid, signal.SIGKILL)

    assert running.wait() == (0 if ending == "well" else -signal.SIGKILL)
    assert_nobody_left(spared=flota.before)
    if ending == "well":
        assert flota.log(1) == "runs\n"


@pytest.mark.parametrize("module", ["plain", "jax"])
def test_auto_learns_whatever_way_the_workers_come(flota, here, says, module):  # noqa: F811
    """Where there is no fork the first attempt is a cold one, and learnt from all the same."""
    (here / "train.py").write_text(
        f"import sys, {module}\nprint('colorsys' in sys.modules)\ndef late():\n    import colorsys\nlate()\n{WAITS}"
    )
    (here / f"{module}.py").touch()
    running = flota.start("--warm", f"auto,{module}", "--max_restart", 1, "--nproc_per_node", 2, "train.py")
    wait_until(lambda: says("interpreters are ready" if module == "jax" else "the next restart"), "the next")
    (here / "go").touch()

    assert running.wait() == 0
    assert flota.log(0) == "False\nattempt 0\nTrue\nattempt 1\n"


def test_a_seed_that_an_import_gives_is_every_workers(flota, here):  # noqa: F811
    (here / "seeds.py").write_text("import random\nrandom.seed(7)\nrandom.random()")
    (here / "train.py").write_text("import random, seeds\nprint(random.random())")

    warm = flota.run("--warm", "seeds", "--nproc_per_node", 2, "train.py")
    flota.run("--log_dir", "cold", "train.py")

    assert "cold start: an import seeded a random generator" in warm.stderr
    assert [flota.log(rank) for rank in range(2)] == [flota.log(0, "cold")] * 2
