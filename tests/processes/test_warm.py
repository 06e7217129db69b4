"""Warm workers: the same as cold ones in all that a script can see, but for the time that imports take."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess

import pytest

from tests.guards.test_public_names import other_pythons
from tests.launching import SHEPHERD, WORKERS, assert_nobody_left, children, name_of, wait_until, worker_output

ENDINGS = ["well", "raises", "interrupted", "exits", "words", "hard", "killed"]
FORKED = "warm: workers are forked from one interpreter"
WILL_BE_PARKED = "one interpreter per worker will be parked for the next start"
# Until the node has parked what it parks, a worker works; then rank 0 of the first attempt fails.
FIRST_FAILS = """
import glob, os, sys, time
import flota

def own_log():  # which the node opens after it has started the workers
    return "".join(open(log).read() for log in glob.glob(os.environ["FLOTA_LOG_DIR"] + "/default.*.log"))

def first_fails(*words):
    flota.heartbeat(1)
    if os.environ["FLOTA_ATTEMPT"] != "0":
        return
    give_up = time.monotonic() + 60
    while not all(word in own_log() for word in words) and time.monotonic() < give_up:
        time.sleep(0.02)
    sys.exit(3 if os.environ["RANK"] == "0" else 0)
"""

# The first import takes longer than a test may.
SLOW_ONCE = """
import os, time
if not os.path.exists('importing'):
    os.mkdir('importing')
    time.sleep(600)
"""


@pytest.fixture
def here(flota):
    (flota.directory / "at_first.py").write_text(FIRST_FAILS)
    for worker in ("prints.py", "sleeps.py"):
        shutil.copy(WORKERS / worker, flota.directory)
    return flota.directory


def reflection(flota, rank, log_dir="log"):
    """What a worker has told of itself last, with its log's name made the same for all."""
    lines = [line for line in flota.log(rank, log_dir).splitlines() if line.startswith("{")]
    return json.loads(lines[-1].replace(f"/{log_dir}/", "/log/").replace(f'/{log_dir}"', '/log"'))


def rest(flota, rank, log_dir):
    """In no order: its threads end when they do."""
    return sorted(line for line in flota.log(rank, log_dir).splitlines() if not line.startswith("{"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_fork_cannot_tell_the_difference(flota, ending):
    script = shutil.copy(WORKERS / "reflects.py", flota.directory / "reflects.py")

    runs = {
        log: flota.run("--log_dir", log, "--nproc_per_node", 1, *flags, script, ending, "${rank}", "--x=1")
        for log, flags in {"cold": [], "warm": ["--warm", "decimal,fractions"]}.items()
    }

    assert FORKED in runs["warm"].stderr
    assert reflection(flota, 0, "warm") == reflection(flota, 0, "cold")
    assert rest(flota, 0, "warm") == rest(flota, 0, "cold")
    assert runs["warm"].returncode == runs["cold"].returncode


@pytest.mark.parametrize("warm", ["decimal", "threaded"])
def test_a_restarted_worker_cannot_tell_the_difference(flota, here, warm):
    (here / "threaded.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()"
    )
    (here / "package").mkdir()
    (here / "package/__init__.py").touch()
    text = (WORKERS / "reflects.py").read_text()
    parked = '"ready for the next start"' if warm == "threaded" else '"warm"'
    waits = f"    import at_first, os\n    at_first.first_fails(*[{parked}] if 'warm' in os.environ['FLOTA_LOG_DIR'] else [])\n"
    (here / "package/reflects.py").write_text(
        text.replace("    main()\n", f"    import {warm}\n" + waits + "    main()\n")
    )

    for log, flags in {"cold": [], "warm": ["--warm", warm]}.items():
        words = ["--max_restart", 1, "--nproc_per_node", 2, "-m", "package.reflects", "well", "${rank}"]
        assert flota.run("--log_dir", log, *flags, *words).returncode == 0

    for rank in range(2):
        cold, warm_ = reflection(flota, rank, "cold"), reflection(flota, rank, "warm")
        if warm == "decimal":  # forks share one command line in ps; the script's own arguments are right
            del warm_["command"], cold["command"]
        assert warm_ == cold


def test_every_worker_prints_what_the_imports_print(flota, here):
    (here / "chatty.py").write_text("import sys\nprint('to stdout')\nprint('to stderr', file=sys.stderr)")

    flota.run("--warm", "chatty", "--nproc_per_node", 2, flota.directory / "prints.py")

    for rank in range(2):
        assert flota.log(rank).startswith("to stdout\nto stderr\n")


def test_an_import_finds_the_workers_own_variables(flota, here):
    (here / "reads.py").write_text("import os\nSEEN = os.environ.get('OMP_NUM_THREADS')")
    (here / "asks.py").write_text("import os\nSEEN = os.environ.get('RANK')")
    (here / "tells.py").write_text("import asks, os, reads\nprint(reads.SEEN, asks.SEEN)")

    same = flota.run("--warm", "reads", "--threads", 3, "--nproc_per_node", 2, "--log_dir", "same", "tells.py")
    own = flota.run("--warm", "asks", "--threads", 3, "--nproc_per_node", 2, "--log_dir", "own", "tells.py")

    assert FORKED in same.stderr
    assert "cold start: an import read RANK, which differs between workers" in own.stderr
    for log in ("same", "own"):
        assert [flota.log(rank, log) for rank in range(2)] == ["3 0\n", "3 1\n"]


def test_what_imports_make_of_the_variables_is_there(flota, here):
    (here / "sets.py").write_text("import os\nos.environ['MADE'] = '1'\nos.environ.pop('GIVEN')")
    (here / "tells.py").write_text("import os, sets\nprint(os.environ['MADE'], os.environ.get('GIVEN'))")

    ended = flota.run("--warm", "sets", "--env", "GIVEN=1", "--nproc_per_node", 2, "tells.py")

    assert FORKED in ended.stderr
    assert flota.log(1) == "1 None\n"


def test_auto_leaves_the_imports_after_a_change_of_variables_to_the_script(flota, here):
    packages = here / "site-packages"
    packages.mkdir()
    for name in ("first", "second", "third"):
        (packages / f"{name}.py").write_text("import os, sys\nSEEN = os.environ.get('MODE'), 'mark' in sys.modules")
    (here / "mark.py").touch()
    (here / "train.py").write_text(
        "import first\nimport os\nos.environ['MODE'] = 'fast'\nimport second\nimport mark\n"
        "os.environ.update(MODE='odd')\nimport third\nprint(first.SEEN, second.SEEN, third.SEEN)\n"
        "import at_first\nat_first.first_fails('the next workers are forked')"
    )

    ended = flota.run("--warm", "auto", "--max_restart", 1, "--env", f"PYTHONPATH={packages}", "train.py")

    assert ended.returncode == 0
    assert flota.log(0) == "(None, False) ('fast', False) ('odd', True)\n" * 2


def test_auto_does_not_delay_a_first_start_that_may_be_impossible_to_fork(flota, here):
    packages = here / "site-packages"
    packages.mkdir()
    (packages / "large.py").write_text(
        "import os, time\nif 'RANK' not in os.environ:\n    os.mkdir('importing')\n    time.sleep(600)"
    )
    (here / "train.py").write_text(
        "import large, os, time\nprint('runs')\nwhile not os.path.exists('importing'):\n    time.sleep(0.02)"
    )

    ended = flota.run("--warm", "auto", "--env", f"PYTHONPATH={packages}", "--nproc_per_node", 2, "train.py")

    assert "warm: cold start: it is not known whether large can be forked" in ended.stderr
    assert [flota.log(rank) for rank in range(2)] == ["runs\n"] * 2
    assert_nobody_left(spared=flota.before)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import subprocess\nsubprocess.Popen(['sleep', '97'])", "an import started a process"),
        ("F = open(__file__)", "odd.py`"),
        ("import multiprocessing\nL = multiprocessing.Lock()", "/dev/shm/"),
    ],
)
def test_what_an_import_has_opened_or_started_is_not_shared_by_forks(flota, here, source, why):
    (here / "odd.py").write_text(source)
    (here / "train.py").write_text("import odd")

    ended = flota.run("--warm", "odd", "--nproc_per_node", 2, "train.py")

    assert ended.returncode == 0
    assert "cold start:" in ended.stderr and why in ended.stderr
    assert_nobody_left(spared=flota.before)


def test_what_an_import_has_started_ends_with_a_template_that_is_killed(flota, here):
    (here / "odd.py").write_text("import os, subprocess\nsubprocess.Popen(['sleep', '97'])\nos.kill(os.getpid(), 9)")
    (here / "train.py").write_text("")

    ended = flota.run("--warm", "odd", "--nproc_per_node", 2, "train.py")

    assert ended.returncode == 0
    assert "the parked interpreter exited" in ended.stderr
    assert_nobody_left(spared=flota.before)


def test_forks_do_not_share_a_random_state(flota, here):
    script = here / "draws.py"
    (here / "owns.py").write_text("import random\nOWN = random.Random()\nSEEDED = random.Random(1)")
    script.write_text(
        "import multiprocessing, random, uuid, tempfile, owns\n"
        "key = bytes(multiprocessing.current_process().authkey).hex()\n"
        "print(random.random(), key, uuid.uuid4(), tempfile.mktemp(), owns.OWN.random(), owns.SEEDED.random())"
    )

    flota.run("--warm", "random,multiprocessing,uuid,tempfile,owns", "--nproc_per_node", 4, script)

    drawn = [flota.log(rank).split() for rank in range(4)]
    assert [len(set(column)) for column in zip(*drawn, strict=True)] == [4, 4, 4, 4, 4, 1]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("1 / 0", "cannot import `odd`: ZeroDivisionError: division by zero"),
        ("raise SystemExit(5)", "cannot import `odd`: SystemExit: 5"),
        ("import os; os._exit(4)", "the parked interpreter exited"),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
         "the imports left 2 threads running"),
    ],
)  # fmt: skip
def test_what_cannot_be_warm_starts_cold_and_says_why(flota, here, source, why):
    (here / "odd.py").write_text(source)

    ended = flota.run("--warm", "odd", "--nproc_per_node", 2, flota.directory / "prints.py", 1)

    assert ended.returncode == 0
    assert why in ended.stderr
    assert flota.log(1)


def test_a_program_and_a_wrapper_start_cold_and_say_why(flota, here):
    wrapper = here / "python"
    wrapper.write_text('#!/bin/sh\nexec python3 -I "$@"\n')
    wrapper.chmod(0o755)

    program = flota.run("--warm", "decimal", "--no-python", "true")
    wrapped = flota.run("--warm", "decimal", "--python", wrapper, flota.directory / "prints.py", 1)

    assert "/bin/true` is not a Python script" in program.stderr
    assert f"warm: cold start: `{wrapper}` is a script, not an interpreter" in wrapped.stderr
    assert wrapped.returncode == program.returncode == 0


def test_what_is_never_forked_has_a_parked_interpreter_for_each_worker(flota, here):
    (here / "jax.py").write_text("import sys\nEARLY = 'at_first' not in sys.modules")
    (here / "train.py").write_text(
        "import at_first, jax\nprint('parked' if jax.EARLY else 'cold')\nat_first.first_fails('2 of 2 interpreters are ready')"
    )

    ended = flota.run("--warm", "jax", "--max_restart", 1, "--nproc_per_node", 2, "train.py")

    assert ended.returncode == 0
    assert "warm: cold start: jax is never forked" in ended.stderr
    assert [flota.log(rank) for rank in range(2)] == ["cold\nparked\n"] * 2


@pytest.mark.parametrize("named", ["paddle", "auto"])
def test_a_module_known_to_read_its_rank_starts_cold_at_once(flota, here, named):
    (here / "paddle.py").write_text(SLOW_ONCE)
    (here / "train.py").write_text("import os\nos.path.exists('importing') or os.mkdir('importing')\nimport paddle\n")

    ended = flota.run("--warm", named, "--max_restart", 1, "--nproc_per_node", 2, "train.py")

    assert ended.returncode == 0
    [line] = [line for line in ended.stderr.splitlines() if "warm:" in line]
    assert line == f"flota: warm: cold start: paddle reads the rank of its worker when it is imported; {WILL_BE_PARKED}"


def test_imports_end_when_a_fork_becomes_impossible(flota, here):
    (here / "asks.py").write_text(f"import os\nos.environ.get('RANK')\nimport colorsys\n{SLOW_ONCE}")
    (here / "train.py").write_text("import os\nprint(os.path.exists('importing'))")

    ended = flota.run("--warm", "asks", "--max_restart", 1, "--nproc_per_node", 2, "train.py")

    assert flota.log(0) == "False\n"
    [line] = [line for line in ended.stderr.splitlines() if "warm:" in line]
    assert line == f"flota: warm: cold start: an import read RANK, which differs between workers; {WILL_BE_PARKED}"


def test_the_first_start_does_not_wait_for_long_imports(flota, here):
    (here / "slow.py").write_text(SLOW_ONCE)
    (here / "train.py").write_text("import at_first, slow\nprint('runs')\nat_first.first_fails('workers are forked')")

    ended = flota.run("--warm", "slow", "--max_restart", 1, "--nproc_per_node", 2, "train.py")

    assert ended.returncode == 0
    assert "warm: cold start: the imports take more than 8 s" in ended.stderr
    assert FORKED in ended.stderr  # the next one
    assert flota.log(0) == "runs\nruns\n"


def test_parked_interpreters_that_would_take_too_much_are_given_up(flota, here):
    (here / "jax.py").write_text("x = bytearray(50 << 20)")
    (here / "train.py").write_text("import at_first\nat_first.first_fails('the next start will be cold')")

    ended = flota.run("--warm", "jax", "--warm-memory", "20M", "--max_restart", 1, "train.py")

    assert ended.returncode == 0
    assert "the next start will be cold: cannot import `jax`: MemoryError" in ended.stderr


def test_the_script_itself_is_read_again(flota, here):
    (here / "train.py").write_text(
        "import os, sys\nopen(sys.argv[0], 'w').write('print(\"the new one\")')\nsys.exit(1)"
    )

    ended = flota.run("--warm", "decimal", "--max_restart", 1, "train.py")

    assert ended.returncode == 0
    assert flota.log(0) == "the new one\n"


@pytest.mark.parametrize("module", ["plain", "jax"])
def test_a_module_that_has_changed_is_imported_again(flota, here, module):
    (here / f"{module}.py").write_text("VERSION = 1")
    wait = "'2 of 2 interpreters are ready'" if module == "jax" else "'warm'"
    (here / "train.py").write_text(
        f"import at_first, os, {module}\nprint({module}.VERSION)\n"
        "if os.environ['RANK'] == os.environ['FLOTA_ATTEMPT'] == '0':\n"
        f"    import atexit; atexit.register(os.replace, 'changed.py', '{module}.py')\n"
        f"at_first.first_fails({wait})"
    )
    (here / "changed.py").write_text("VERSION = 22")  # put into place at once: the other rank may be about to import it

    ended = flota.run("--warm", module, "--max_restart", 1, "--nproc_per_node", 2, "train.py")

    assert ended.returncode == 0
    assert flota.log(0) == "1\n22\n"
    assert f"{module}.py` has changed since it was imported" in ended.stderr


def test_auto_takes_the_scripts_own_imports_but_no_code_of_the_users(flota, here):
    (here / "mine.py").write_text("import os\nprint('mine in', os.environ.get('RANK'))")
    (here / "train.py").write_text(
        "import sys\nprint(sorted({'decimal', 'mine', 'fractions'} & set(sys.modules)))\n"
        "import decimal\nfrom fractions import Fraction\nimport mine\n"
    )

    ended = flota.run("--warm", "auto", "--nproc_per_node", 2, "train.py")

    assert FORKED in ended.stderr
    assert flota.log(1) == "['decimal', 'fractions']\nmine in 1\n"


def test_auto_learns_what_the_first_attempt_has_imported(flota, here):
    (here / "train.py").write_text(
        "import sys, at_first\nprint('colorsys' in sys.modules)\n"
        "def late():\n    import colorsys\nlate()\n"
        "at_first.first_fails('the next restart')"
    )

    ended = flota.run("--warm", "auto", "--max_restart", 1, "--nproc_per_node", 2, "train.py")

    assert ended.returncode == 0
    assert flota.log(0) == "False\nTrue\n"


def test_a_cold_start_after_all_has_logs_with_a_limit(flota, here):
    ended = flota.run("--warm", "absent", "--log_max_size", "1M", "--nproc_per_node", 2, here / "prints.py")

    assert ended.returncode == 0
    assert [len(flota.log(rank).splitlines()) for rank in range(2)] == [20000, 20000]


def test_imports_print_to_the_stream_that_they_print_to(flota, here):
    (here / "chatty.py").write_text("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    (here / "train.py").write_text("import chatty")

    flota.run("--warm", "chatty", "-r", 3, "--nproc_per_node", 2, "train.py")

    assert worker_output(here / "log/workerlog.1.out") == "out\n"
    assert worker_output(here / "log/workerlog.1.err") == "err\n"


def test_roles_of_one_script_have_their_own_arguments(flota, here):
    (here / "flota.toml").write_text(
        "[roles.a]\ncount = 1\nscript = 'train.py'\nargs = ['--one']\n"
        "[roles.b]\ncount = 1\nscript = 'train.py'\nargs = ['x', 'y', 'z']\n"
    )
    (here / "train.py").write_text("import sys\nprint(sys.argv)")

    ended = flota.run("--warm", "decimal")

    assert FORKED in ended.stderr
    logs = sorted(worker_output(path) for path in (here / "log").glob("*log.0"))
    assert logs == ["['train.py', '--one']\n", "['train.py', 'x', 'y', 'z']\n"]


def test_a_script_finds_modules_in_its_own_folder(flota, here):
    (here / "app").mkdir()
    (here / "app/colorsys.py").write_text("OWN = True")
    (here / "app/__main__.py").write_text("import colorsys\nprint(hasattr(colorsys, 'OWN'))")

    flota.run("--warm", "colorsys", "--run-path", "app")

    assert flota.log(0) == "True\n"


def test_a_file_written_during_its_import_is_imported_again(flota, here):
    (here / "slow.py").write_text(
        "import pathlib, time\npathlib.Path('plain.py').write_text('VERSION = 22')\ntime.sleep(0.1)"
    )
    (here / "plain.py").write_text("VERSION = 1")
    (here / "train.py").write_text("import plain\nprint(plain.VERSION)")

    ended = flota.run("--warm", "plain,slow", "train.py")

    assert "plain.py` has changed since it was imported" in ended.stderr
    assert flota.log(0) == "22\n"


def test_a_lost_shepherd_of_parked_interpreters_is_replaced(flota, here):
    (here / "jax.py").touch()
    (here / "train.py").write_text(
        "import flota, os, sys, time\nprint('jax' in sys.modules)\nflota.heartbeat(1)\n"
        "while not os.path.exists('go'):\n    time.sleep(0.02)\nsys.exit(os.environ['FLOTA_ATTEMPT'] == '0')"
    )
    running = flota.start("--warm", "jax", "--max_restart", 1, "--nproc_per_node", 2, "train.py")
    first = running.shepherd()
    wait_until(lambda: len(running.shepherds()) == 2, "a shepherd for the next round")
    [own_log] = (here / "log").glob("default.*.log")
    wait_until(lambda: "2 of 2" in own_log.read_text(), "interpreters")

    (parked,) = set(running.shepherds()) - {first}
    os.kill(parked, signal.SIGKILL)
    wait_until(lambda: own_log.read_text().count("2 of 2") == 2, "other interpreters")
    (here / "go").touch()

    assert running.wait() == 0
    assert [flota.log(rank) for rank in range(2)] == ["False\nTrue\n"] * 2
    assert_nobody_left(spared=flota.before)


def unnamed(running):
    return [pid for pid in children(running.pid) if name_of(pid) != SHEPHERD]


def test_a_lost_parked_interpreter_is_replaced(flota, here):
    (here / "train.py").write_text(
        "import at_first, sys\nprint('runs', 'decimal' in sys.modules)\n"
        "at_first.first_fails('the parked interpreter exited', 'the next restart starts in')"
    )
    running = flota.start("--warm", "decimal", "--max_restart", 1, "train.py")
    wait_until(lambda: "runs" in flota.log(0) if (here / "log/workerlog.0").exists() else False, "the worker")
    wait_until(lambda: len(unnamed(running)) == 1, "the parked interpreter")  # a shepherd takes its name after the fork

    os.kill(unnamed(running)[0], signal.SIGKILL)

    assert running.wait() == 0
    assert flota.log(0) == "runs True\n" * 2
    assert_nobody_left(spared=flota.before)


def test_a_lost_shepherd_does_not_take_the_parked_interpreter_along(flota, here):
    (here / "train.py").write_text(
        "import os, subprocess, sys, time\nprint('runs', 'decimal' in sys.modules, flush=True)\n"
        "subprocess.Popen(['sleep', '97'], start_new_session=True)\n"
        "while os.environ['FLOTA_ATTEMPT'] == '0':\n    time.sleep(0.02)"
    )
    running = flota.start("--warm", "decimal", "--max_restart", 1, "--nproc_per_node", 2, "train.py")
    ranks = range(2)
    logs = [here / f"log/workerlog.{rank}" for rank in ranks]
    wait_until(lambda: all(log.exists() and "True\n" in log.read_text() for log in logs), "the workers")

    os.kill(running.shepherd(), signal.SIGKILL)

    _, err = running.output()
    assert running.wait() == 0, err
    assert [flota.log(rank) for rank in ranks] == ["runs True\n" * 2] * 2
    assert "parked interpreter exited" not in err and "cold" not in err
    assert_nobody_left(spared=flota.before)


def test_an_interpreter_that_cannot_park_does_not_run_the_script(flota, here):
    """What goes wrong before a script must not make it run twice, once without a rank."""
    (here / "site").mkdir()
    (here / "site/socket.py").write_text("raise RuntimeError('no socket')")
    (here / "train.py").write_text("import os\nprint('runs as', os.environ.get('RANK'))")

    flags = ["--env", f"PYTHONPATH={here / 'site'}", "--nproc_per_node", 2]
    ended = flota.run("--warm", "decimal", *flags, "train.py")

    assert "the parked interpreter exited: RuntimeError: no socket" in ended.stderr
    assert [flota.log(rank) for rank in range(2)] == ["runs as 0\n", "runs as 1\n"]
    assert "runs as" not in ended.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_stop_does_not_wait_for_an_import(flota, here, name):
    (here / "slow.py").write_text("import os, time\nos.mkdir('importing')\ntime.sleep(300)")
    running = flota.start("--warm", "slow", "--nproc_per_node", 2, flota.directory / "sleeps.py")
    running.wait_for("importing")

    os.kill(running.pid, getattr(signal, name))

    assert running.wait() == {"SIGINT": 130, "SIGTERM": 143, "SIGKILL": -9}[name]
    assert_nobody_left(spared=flota.before)


def test_a_sitecustomize_of_the_users_own_is_there(flota, here):
    (here / "site").mkdir()
    (here / "site/sitecustomize.py").write_text("MARK = 'the user own'")
    (here / "train.py").write_text("import os, sys, sitecustomize\nprint(sitecustomize.MARK, os.environ['PYTHONPATH'])")

    flota.run("--warm", "decimal", "train.py", env={"PYTHONPATH": str(here / "site")})

    assert flota.log(0) == f"the user own {here / 'site'}\n"


@pytest.mark.parametrize("version", other_pythons())
def test_the_workers_interpreter_may_be_another_one(flota, here, version):
    # What is found on PATH may be a script that chooses a version.
    asked = [other_pythons()[version], "-c", "import sys; print(sys.executable)"]
    python = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    script = here / "train.py"
    script.write_text(
        "import decimal, os, sys\nprint(sys.version_info[:2], os.environ['RANK'])\n"
        "sys.exit(1 if (os.environ['FLOTA_ATTEMPT'], os.environ['RANK']) == ('0', '1') else 0)"
    )

    ended = flota.run("--warm", "auto", "--python", python, "--max_restart", 1, "--nproc_per_node", 2, script)

    assert ended.returncode == 0, ended.stderr
    assert FORKED in ended.stderr
    assert len(flota.log(1).splitlines()) == 2
