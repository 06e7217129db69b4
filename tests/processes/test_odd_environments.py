"""Worlds that nobody wishes for: odd environments, odd masks, odd disks. Each once brought flota down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.launching import COMMAND, WORKERS, assert_nobody_left, environment, wait_until


def script(flota, code, name="script.py"):
    (flota.directory / name).write_text(code)
    return name


@pytest.mark.skipif(os.getuid() != 0, reason="namespaces need root")
def test_without_proc_the_death_of_the_node_does_not_affect_other_processes(flota):
    """The shepherd cannot see who is whose then; it must not take everybody for its own."""
    # In a pid namespace of its own, where the worst that can happen stays inside.
    story = f"""
mount -t tmpfs none /proc
sleep 300 & stranger=$!
{COMMAND} --nproc_per_node 2 {WORKERS / "sleeps.py"} & node=$!
while [ ! -e ready.1.0 ]; do sleep 0.05; done
kill -9 $node
sleep 1
kill -0 $stranger && touch unharmed
"""
    subprocess.run(
        ["unshare", "--pid", "--fork", "--mount", "sh", "-c", story],
        cwd=flota.directory,
        env=environment(),
        check=False,
        timeout=60,
    )

    assert (flota.directory / "unharmed").exists()


def test_a_shepherd_that_breaks_is_never_a_success(flota):
    code = "import flota.host.shepherd as s, sys\ns.Shepherd._reap = lambda self: 1 / 0\nfrom flota.cli.main import main\nsys.exit(main(sys.argv[1:]))"

    result = flota.run("sleeps.py", command=[sys.executable, "-c", code])

    assert result.returncode == 70
    assert_nobody_left()


@pytest.mark.parametrize("how", ["ignored", "blocked"])
def test_a_callers_habits_with_signals_do_not_make_flota_deaf(flota, how):
    prepare = {
        "ignored": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT})",
    }[how]
    code = f"import os, signal, sys; {prepare}; os.execv({str(COMMAND)!r}, ['flota', *sys.argv[1:]])"

    assert flota.run("prints.py", command=[sys.executable, "-c", code], env={"LINES_TO_PRINT": "1"}).returncode == 0
    running = flota.start("sleeps.py", command=[sys.executable, "-c", code])
    running.wait_for("ready.0.0")
    os.kill(running.pid, signal.SIGTERM)
    assert running.wait() == 143


def test_a_very_long_grace_is_a_grace(flota):
    running = flota.start("--grace", "600h", "echoes_signals.py")
    running.wait_for("ready.0.0")

    os.kill(running.pid, signal.SIGTERM)

    assert running.wait() == 143
    assert flota.log(0) == "got SIGTERM\n"


def test_rotation_with_restarts_shows_every_line(flota):
    name = script(
        flota,
        "import os, sys\nfor n in range(1500): print(os.environ['FLOTA_ROUND'], 'line', n)\nsys.exit(os.environ['FLOTA_ROUND'] != '4')",
    )

    result = flota.run("--log_max_size", "4K", "--log_backups", 1000, "--max_restart", 5, name)

    assert result.stdout.splitlines() == [f"{number} line {n}" for number in range(5) for n in range(1500)]


def test_rotation_survives_a_stalled_console_and_few_descriptors(flota):
    name = script(flota, "import pathlib\nfor n in range(200000): print('line', n)\npathlib.Path('done').touch()")
    limited = ["sh", "-c", f'ulimit -n 256; exec {COMMAND} "$@"', "sh"]
    running = flota.start("--log_max_size", "8K", name, command=limited)

    running.wait_for("done")
    out, err = running.output()

    assert running.wait() == 0, err
    assert out.splitlines()[-1] == "line 199999"


def test_rotation_survives_the_loss_of_its_directory(flota):
    name = script(flota, "import shutil\nshutil.rmtree('log')\nfor n in range(5000): print('line', n)")

    assert flota.run("--log_max_size", "8K", "--console", "none", name).returncode == 0


def test_a_full_disk_under_the_filters_costs_lines_not_the_job(flota):
    (flota.directory / "log").mkdir()
    (flota.directory / "log" / "filtered_stdout.log").symlink_to("/dev/full")

    result = flota.run("-t", "3", "--duplicate-stdout-filters", "line", "prints.py", env={"LINES_TO_PRINT": "50"})

    assert (result.returncode, len(result.stdout.splitlines())) == (0, 50)


def test_two_streams_of_one_worker_are_not_torn(flota):
    name = script(
        flota,
        "import sys\nfor n in range(20000):\n print('out', n, 'x' * 30)\n print('err', n, 'y' * 30, file=sys.stderr)",
    )

    lines = flota.run("-t", "3", name).stdout.splitlines()

    assert len(lines) == 40000
    assert all(line.endswith(("x" * 30, "y" * 30)) for line in lines)


def test_progress_bars_do_not_hide_the_last_words(flota):
    code = "import os, sys\nfor n in range(50): sys.stderr.write(f'\\rEpoch 1: {n}%|####')\nsys.stderr.write('\\n\\x1b[31mred\\x1b[0m words\\n')\nos._exit(3)"

    result = flota.run("--log_level", "ERROR", script(flota, code))

    assert "  Epoch 1: 49%|####" in result.stderr
    assert "\r" not in result.stderr and "\x1b" not in result.stderr


def test_the_report_does_not_wait_for_a_stalled_terminal(flota):
    name = script(flota, "for n in range(300000): print('line', n)\nraise SystemExit(4)")
    running = flota.start(name)  # nobody reads its stdout

    wait_until((flota.directory / "log" / "report.json").exists, "the report", 120)  # 300,000 writes

    assert json.loads((flota.directory / "log" / "report.json").read_text())["exit_code"] == 4
    running.output()


def test_a_round_header_starts_a_new_line(flota):
    name = script(flota, "import sys\nsys.stdout.write('no end')")
    for _ in range(2):
        flota.run(name)

    lines = (flota.directory / "log" / "workerlog.0").read_text().splitlines()
    assert [line for line in lines if line.startswith("=====")] == [lines[0], lines[2]]
    assert lines[1] == lines[3] == "no end"


def test_a_script_named_like_a_flag_runs(flota):
    script(flota, "print('ran')", "-x.py")

    assert flota.run("--", "-x.py").stdout == "ran\n"


def test_words_that_are_not_utf_8_are_taken_as_they_are(flota):
    result = subprocess.run(
        [COMMAND, "--job_id", b"j\xff", WORKERS / "prints.py"],
        cwd=flota.directory,
        env=environment({"LINES_TO_PRINT": "1"}),
        capture_output=True,
        check=False,
    )

    assert (result.returncode, result.stdout) == (0, b"rank 0 line 0\n"), result.stderr


def test_a_log_that_the_user_empties_is_still_shown(flota):
    code = "import os, time\nprint('before', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('after', flush=True)\n"
    running = flota.start(script(flota, code))
    assert running.process.stdout.readline() == b"before\n"

    os.truncate(flota.directory / "log" / "workerlog.0", 0)
    (flota.directory / "go").touch()

    assert running.output()[0] == "after\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json", "x.py"], "--json has an effect only with --dry-run"),
        (["--ips", "", "x.py"], "for --ips: expected addresses"),
        (["--nproc_per_node", "99999999", "x.py"], "a number from 1 to 10000"),
    ],
)
def test_impossible_options_are_errors(flota, words, message):
    script(flota, "", "x.py")

    result = flota.run(*words)

    assert message in result.stderr
    assert result.returncode == 2


def test_old_names_also_work_in_files_and_variables(flota):
    (flota.directory / "flota.toml").write_text('max_restarts = 1\nenv = ["A=b", "C=d"]\n')

    flota.run("fails.py", env={"FAIL_RANK": "0"})
    assert (flota.directory / "ready.0.1").exists()

    flota.run("fails.py", env={"FAIL_RANK": "0", "FLOTA_MAX_RESTARTS": "2"})
    assert (flota.directory / "ready.0.2").exists()


def test_a_plan_that_cannot_be_written_is_a_failure(flota):
    script(flota, "", "x.py")
    with open("/dev/full", "w") as full:
        running = flota.start("--dry-run", "x.py", stdout=full)

        assert running.wait() == 1


def test_a_port_range_can_be_used_again_by_the_next_round(flota):
    code = """
import os, socket, sys
host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
server = socket.create_server((host, port))
client = socket.create_connection((host, port))
server.accept()[0].close()
client.recv(1)
sys.exit(os.environ["FLOTA_ATTEMPT"] != "2")
"""
    result = flota.run("--port-range", "28200:28203", "--max_restart", 2, script(flota, code))

    assert result.returncode == 0, result.stderr


def test_a_log_that_becomes_a_fifo_does_not_block_the_start_of_its_worker(flota):
    """After the round's header was written to it."""
    code = """
import os, sys
import flota.run.start as start

write = start.write_round_headers

def write_then_replace(*words, **more):
    marks = write(*words, **more)
    for path in marks:
        os.unlink(path)
        os.mkfifo(path)
    return marks

start.write_round_headers = write_then_replace
from flota.cli.main import main
sys.exit(main(sys.argv[1:]))
"""

    ended = flota.run("sleeps.py", command=[sys.executable, "-c", code])

    assert ended.returncode == 127
    assert_nobody_left()
