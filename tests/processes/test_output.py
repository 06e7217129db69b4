"""Where output goes: files, console, marks, rotation, blocks."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import threading

import pytest

from flota.host.ports import hold_free, port_of, release
from tests.launching import COMMAND, DEADLINE, wait_until

HOST = os.uname().nodename


def script(flota, code, name="script.py"):
    (flota.directory / name).write_text(code)
    return name


def test_rank_0_is_shown_without_a_prefix_and_every_rank_has_a_log(flota):
    result = flota.run("--nproc_per_node", 3, "prints.py", env={"LINES_TO_PRINT": "2"})

    assert result.stdout == "rank 0 line 0\nrank 0 line 1\n"
    assert [flota.log(rank).splitlines()[-1] for rank in range(3)] == [f"rank {rank} line 1" for rank in range(3)]


@pytest.mark.parametrize("count", [1, 20000])
def test_no_line_is_lost_on_the_console(flota, count):
    result = flota.run("prints.py", env={"LINES_TO_PRINT": str(count)})

    assert result.stdout.splitlines() == [f"rank 0 line {number}" for number in range(count)]


def test_several_ranks_are_shown_in_whole_lines_behind_host_and_rank(flota):
    result = flota.run("--nproc_per_node", 4, "--console", "all", "prints.py", env={"LINES_TO_PRINT": "5000"})

    lines = result.stdout.splitlines()
    assert len(lines) == 20000
    for rank in range(4):
        own = [line for line in lines if line.startswith(f"[{HOST}:{rank}] ")]
        assert own == [f"[{HOST}:{rank}] rank {rank} line {number}" for number in range(5000)]


@pytest.mark.parametrize(("wish", "shown"), [("none", []), ("1", [1]), ("0,2", [0, 2]), ("all", [0, 1, 2])])
def test_console_chooses_ranks(flota, wish, shown):
    result = flota.run("--nproc_per_node", 3, "--console", wish, "prints.py", env={"LINES_TO_PRINT": "1"})

    assert sorted(int(line.split()[-3]) for line in result.stdout.splitlines()) == shown


def test_local_ranks_filter_also_chooses_ranks(flota):
    result = flota.run("--nproc_per_node", 3, "--local-ranks-filter", "2", "prints.py", env={"LINES_TO_PRINT": "1"})

    assert result.stdout == "rank 2 line 0\n"


def test_bytes_and_carriage_returns_stay_as_they_are(flota):
    raw = bytes(range(256)).replace(b"\n", b"") + b"\r 10%\r 20%\n\xff\xfe\n"
    name = script(flota, f"import sys\nsys.stdout.buffer.write({raw!r})")

    running = flota.start(name)
    out, _ = running.process.communicate(timeout=DEADLINE)

    assert out == raw
    assert (flota.directory / "log" / "workerlog.0").read_bytes().endswith(raw)


def test_a_progress_bar_is_shown_while_it_grows(flota):
    name = script(flota, "import sys, time\nsys.stdout.write('\\r 10%')\ntime.sleep(600)")
    running = flota.start(name)

    os.set_blocking(running.process.stdout.fileno(), False)
    seen = b""

    def shown():
        nonlocal seen
        seen += running.process.stdout.read() or b""
        return seen == b"\r 10%"

    wait_until(shown, "the bar")


def test_a_last_line_without_an_end_is_not_glued_to_the_next_rank(flota):
    name = script(flota, "import os, sys\nsys.stdout.write('end of ' + os.environ['RANK'])")

    result = flota.run("--nproc_per_node", 2, "--console", "all", name)

    assert sorted(result.stdout.splitlines()) == [f"[{HOST}:0] end of 0", f"[{HOST}:1] end of 1"]


def test_output_of_a_workers_children_after_its_end_is_not_lost(flota):
    name = script(
        flota,
        "import os, sys, time\nprint('parent', flush=True)\nif os.fork() == 0:\n print('child', flush=True)\n os._exit(0)\nos.wait()",
    )

    assert flota.run(name).stdout == "parent\nchild\n"


def test_output_is_unbuffered(flota):
    name = script(flota, "import time\nprint('now')\ntime.sleep(600)")
    running = flota.start(name)

    assert running.process.stdout.readline() == b"now\n"


def test_both_streams_share_one_log_in_order(flota):
    name = script(flota, "import sys\nfor n in range(3):\n print('out', n)\n print('err', n, file=sys.stderr)")

    result = flota.run(name)

    assert flota.log(0).splitlines() == ["out 0", "err 0", "out 1", "err 1", "out 2", "err 2"]
    assert result.stdout.splitlines() == flota.log(0).splitlines()


def test_logs_are_appended_with_one_mark_a_round(flota):
    for _ in range(2):
        flota.run("--max_restart", 1, "fails.py", env={"FAIL_RANK": "0", "FAIL_UNTIL": "0"})

    marks = [
        line
        for line in (flota.directory / "log" / "workerlog.0").read_text().splitlines()
        if line.startswith("===== flota")
    ]
    assert [re.search(r"round (\d), attempt (\d), rank 0 of 1", mark).groups() for mark in marks] == [
        ("0", "0"),
        ("1", "1"),
    ] * 2


def test_the_console_shows_this_job_only_and_no_marks(flota):
    flota.run("prints.py", env={"LINES_TO_PRINT": "3"})

    result = flota.run("--max_restart", 1, "fails.py", env={"FAIL_RANK": "0", "FAIL_HOW": "3", "FAIL_UNTIL": "0"})

    assert result.stdout == "rank 0 is about to fail on attempt 0\nrank 0 ends well on attempt 1\n"


def test_log_overwrite_truncates_once_a_job(flota):
    flota.run("prints.py", env={"LINES_TO_PRINT": "3"})

    flota.run(
        "--log_overwrite", "--max_restart", 1, "fails.py", env={"FAIL_RANK": "0", "FAIL_HOW": "3", "FAIL_UNTIL": "0"}
    )

    assert flota.log(0) == "rank 0 is about to fail on attempt 0\nrank 0 ends well on attempt 1\n"


def test_every_node_writes_endpoints_log_and_shows_its_real_address(flota):
    holders = hold_free(2, "127.0.0.1")
    master, port = map(port_of, holders)
    release(holders)
    common = ("--nnodes", 2, "--master", f"127.0.0.1:{master}", "--start_port", port, "--verbose", "dumps_env.py")
    hosts = ("127.0.0.1", "127.0.0.2")

    nodes = [flota.start("--rank", rank, "--host", host, "--log_dir", host, *common) for rank, host in enumerate(hosts)]

    for host, node in zip(hosts, nodes, strict=True):
        errors = node.output()[1]
        assert node.process.returncode == 0, errors
        assert f"\nips: {host}\n" in errors
        lines = (flota.directory / host / "endpoints.log").read_text().splitlines()
        assert lines == ["PADDLE_TRAINER_ENDPOINTS:", f"127.0.0.1:{port}", f"127.0.0.2:{port}"]


def test_the_start_block_shows_the_listed_addresses(flota):
    result = flota.run(
        "--ips", "127.0.0.1,127.0.0.2", "--host", "127.0.0.1", "--join-timeout", "0", "--verbose", "dumps_env.py"
    )

    assert "\nips: 127.0.0.1,127.0.0.2\n" in result.stderr


def test_endpoints_log_lists_every_worker(flota):
    flota.run("--nproc_per_node", 3, "dumps_env.py")

    lines = (flota.directory / "log" / "endpoints.log").read_text().splitlines()
    assert lines[0] == "PADDLE_TRAINER_ENDPOINTS:"
    assert len(lines) == 4
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+", line) for line in lines[1:])


@pytest.mark.parametrize(
    ("flags", "template", "lines"),
    [
        (
            ["--tee", "3", "--role", "main"],
            "[${role_name}/$rank/${local_rank}]:",
            ["[main/0/0]:hello", "[main/1/1]:hello"],
        ),
        (["--console", "all"], "${rank}> ${other} $$ ", ["0> ${other} $ hello", "1> ${other} $ hello"]),
        ([], "${local_rank}: ", ["0: hello"]),
    ],
)
def test_torchs_template_replaces_the_prefix(flota, flags, template, lines):
    name = script(flota, "print('hello')")

    result = flota.run("--nproc_per_node", 2, *flags, name, env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": template})

    assert sorted(result.stdout.splitlines()) == lines


def test_the_flag_for_the_prefix_wins_and_knows_the_host(flota):
    name = script(flota, "print('hello')")

    result = flota.run(
        *("--nproc_per_node", 2, "--tee", 3, "--log-line-prefix-template", "${hostname}/${rank}: ", name),
        env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "other "},
    )

    assert sorted(result.stdout.splitlines()) == [f"{os.uname().nodename}/{rank}: hello" for rank in range(2)]


def test_redirects_give_streams_files_of_their_own_and_hide_them(flota):
    name = script(flota, "import os, sys\nprint('out')\nprint('err', file=sys.stderr)")

    result = flota.run("--nproc_per_node", 12, "-r", "0:3,11:2", "--console", "all", name)

    logs = {path.name for path in (flota.directory / "log").glob("workerlog*")}
    assert {"workerlog.0.out", "workerlog.0.err", "workerlog.11", "workerlog.11.err"} <= logs
    assert "workerlog.0" not in logs
    shown = result.stdout.splitlines()
    assert not [line for line in shown if line.startswith(f"[{HOST}:0]")]
    assert [line for line in shown if line.startswith(f"[{HOST}:11]")] == [f"[{HOST}:11] out"]


def test_tee_shows_what_it_redirects(flota):
    name = script(flota, "import os, sys\nprint('out')\nprint('err', file=sys.stderr)")

    result = flota.run("--nproc_per_node", 2, "-t", "2", "--console", "none", name)

    assert sorted(result.stdout.splitlines()) == [f"[{HOST}:0] err", f"[{HOST}:1] err"]
    assert (flota.directory / "log" / "workerlog.1.err").read_text().endswith("err\n")


def test_local_ranks_filter_also_applies_to_teed_streams(flota):
    result = flota.run(
        "--nproc_per_node", 3, "-t", "3", "--local-ranks-filter", "1", "prints.py", env={"LINES_TO_PRINT": "1"}
    )

    assert result.stdout == "rank 1 line 0\n"


def test_duplicate_filters_collect_matching_lines(flota):
    name = script(flota, "import os\nfor n in range(5): print('loss' if n % 2 else 'step', n)")

    flota.run("--nproc_per_node", 2, "-t", "3", "--duplicate-stdout-filters", "loss,never", name)

    lines = (flota.directory / "log" / "filtered_stdout.log").read_text().splitlines()
    assert sorted(lines) == sorted(f"[{HOST}:{rank}] loss {n}" for rank in range(2) for n in (1, 3))


def test_timestamps_precede_each_console_line(flota):
    result = flota.run("--log-timestamps", "prints.py", env={"LINES_TO_PRINT": "2"})

    assert all(
        re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d rank 0 line \d", line) for line in result.stdout.splitlines()
    )
    assert flota.log(0) == "rank 0 line 0\nrank 0 line 1\n"


def test_rotation_loses_no_line_and_splits_none(flota):
    result = flota.run("--log-max-size", "64K", "--log-backups", 100, "prints.py", env={"LINES_TO_PRINT": "20000"})

    files = sorted(
        (flota.directory / "log").glob("workerlog.0*"),
        key=lambda path: -int(path.suffix[1:]) if path.name.count(".") > 1 else 0,
    )
    assert len(files) > 3
    assert all(path.stat().st_size <= 64 << 10 for path in files)
    lines = [line for path in files for line in path.read_text().splitlines() if not line.startswith("=====")]
    assert lines == [f"rank 0 line {number}" for number in range(20000)]
    assert result.stdout.splitlines() == lines


def test_the_last_words_are_whole_after_a_rotation(flota):
    name = script(flota, "for n in range(20000): print('line', n)\nraise ValueError('at the end')")

    result = flota.run("--log-max-size", "64K", "--log_level", "ERROR", name)

    assert "  ValueError: at the end" in result.stderr
    assert "Traceback (most recent call last):" in result.stderr


def test_rotation_continues_over_many_restarts(flota):
    """Each round has new pipes, often with the numbers of the last round's."""
    name = script(
        flota, "import os, sys\nprint('round', os.environ['FLOTA_ROUND'])\nsys.exit(os.environ['FLOTA_ROUND'] != '30')"
    )

    words = ["--nproc_per_node", 2, "--max_restart", 30, "--log-max-size", "1M", "--console", "all"]
    result = flota.run(*words, "--crash-loop", 0, "--backoff", 0, name)

    assert result.returncode == 0
    for rank in range(2):
        assert flota.log(rank).splitlines()[-1] == "round 30"


def test_descriptors_do_not_pile_up_over_restarts(flota):
    """The last round sees as many open descriptors in its node as the second."""
    code = """
import os, sys
node = int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])
print("open", len(os.listdir(f"/proc/{node}/fd")), flush=True)
sys.exit(os.environ["FLOTA_ROUND"] != "25")
"""
    flota.run("--max_restart", 25, "--crash-loop", 0, "--backoff", 0, script(flota, code))

    counts = [int(line.split()[1]) for line in flota.log(0).splitlines()]
    assert len(counts) == 26
    assert counts[-1] < counts[1] + 12, "a descriptor per restart stays open"


def test_rotation_keeps_no_more_than_asked(flota):
    flota.run(
        "--log-max-size", "16K", "--log-backups", 2, "--console", "none", "prints.py", env={"LINES_TO_PRINT": "20000"}
    )

    assert {path.name for path in (flota.directory / "log").glob("workerlog.0*")} == {
        "workerlog.0",
        "workerlog.0.1",
        "workerlog.0.2",
    }
    assert flota.log(0).endswith("rank 0 line 19999\n")


def test_a_stalled_console_does_not_stall_workers(flota):
    """Nobody reads stdout; the worker still ends, a failure is still acted upon, and all is shown in the end."""
    name = script(flota, "import pathlib\nfor n in range(200000): print(f'line {n:08d}')\npathlib.Path('done').touch()")
    running = flota.start(name)

    running.wait_for("done")
    out, _ = running.output()

    assert out.splitlines() == [f"line {n:08d}" for n in range(200000)]


def test_the_terminals_own_flags_are_left_alone(flota):
    read_end, write_end = os.pipe()
    running = flota.start("prints.py", stdout=write_end, env={"LINES_TO_PRINT": "1000"})
    reader = threading.Thread(target=lambda: os.read(read_end, 1 << 20))
    reader.start()
    running.wait()
    reader.join()

    assert not fcntl.fcntl(write_end, fcntl.F_GETFL) & os.O_NONBLOCK
    os.close(read_end)
    os.close(write_end)


def test_a_second_job_in_the_same_log_directory_is_refused(flota):
    running = flota.start("sleeps.py")
    running.wait_for("ready.0.0")

    result = flota.run("sleeps.py")

    assert result.returncode == 2
    assert (
        f"another job is writing to the log directory `{flota.directory}/log` (job default, pid {running.pid})"
        in result.stderr
    )
    assert "--log_dir" in result.stderr


def test_the_job_id_names_flotas_own_log(flota):
    flota.run("--job_id", "job/1", "prints.py", env={"LINES_TO_PRINT": "1"})

    own = (flota.directory / "log" / f"job_1.{HOST}.log").read_text()
    assert "flota] 1 worker on " in own


def test_the_blocks_of_a_start_read_as_in_paddles_documents(flota):
    result = flota.run("--framework", "paddle", "dumps_env.py", env={"CUDA_VISIBLE_DEVICES": "0,1,2,3"})

    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", result.stderr)
    text = re.sub(r"^INFO \S+ \S+ ", "INFO DATE TIME ", text, flags=re.MULTILINE)
    text = re.sub(r"\.\.\. \S+", "... ENDPOINTS", text)
    text = re.sub(r"training_script: \S+", "training_script: SCRIPT", text)
    assert text.startswith(GOLDEN)


GOLDEN = """\
-----------  Configuration Arguments -----------
framework: paddle
gpus: 0,1,2,3
ips: 127.0.0.1
log_dir: log
server_num: None
servers:
training_script: SCRIPT
training_script_args: []
worker_num: None
workers:
------------------------------------------------
INFO DATE TIME flota] Local start 4 processes. First process distributed environment info (Only For Debug):
=======================================================================================
            Distributed Envs              Value
---------------------------------------------------------------------------------------
PADDLE_CURRENT_ENDPOINT                   127.0.0.1:PORT
PADDLE_TRAINERS_NUM                       4
FLAGS_selected_gpus                       0
PADDLE_TRAINER_ENDPOINTS                  ... ENDPOINTS
PADDLE_TRAINER_ID                         0
=======================================================================================
"""


def test_log_level_quietens_flota(flota):
    assert flota.run("--log_level", "warning", "prints.py", env={"LINES_TO_PRINT": "1"}).stderr == ""


def test_log_level_debug_shows_events(flota):
    result = flota.run("--log_level", "debug", "prints.py", env={"LINES_TO_PRINT": "1"})

    events = [line.removeprefix("flota: debug: ") for line in result.stderr.splitlines() if "debug: " in line]
    assert [event.partition(":")[0] for event in events] == [
        *("job started", "round started", "worker started", "worker exited", "job ended")
    ]
    assert events[3:] == [
        "worker exited: rank 0, code 0, asked to stop False",
        "job ended: verdict succeeded, exit code 0",
    ]


def test_no_colour_unless_on_a_terminal(flota):
    result = flota.run("fails.py", env={"FAIL_RANK": "0"})

    assert "\033[" not in result.stderr


@pytest.mark.parametrize(
    ("env", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colour_on_a_terminal(flota, env, coloured):
    master, terminal = os.openpty()
    running = flota.start("fails.py", env={"FAIL_RANK": "0", **env}, stderr=terminal)
    running.wait()

    assert (b"\033[31m" in os.read(master, 65536)) is coloured
    os.close(master)
    os.close(terminal)


def test_secrets_stay_out_of_files_and_process_lists(flota):
    """--env's values and the inherited environment are in no file that flota writes."""
    running = flota.start("--env", "MY_KEY=s3cr3t-given", "sleeps.py", env={"MY_TOKEN": "s3cr3t-inherited"})
    running.wait_for("ready.0.0")

    found = subprocess.run(
        ["grep", "-r", "s3cr3t", flota.directory / "log"], capture_output=True, text=True, check=False
    )
    assert found.stdout == ""


def test_closed_standard_streams_do_not_send_output_into_other_files(flota):
    script(flota, "print('hello')")

    result = subprocess.run(["sh", "-c", f"exec {COMMAND} script.py <&- >&- 2>&-"], cwd=flota.directory, check=False)

    assert result.returncode == 0
    assert flota.log(0) == "hello\n"
    assert "hello" not in (flota.directory / "log" / ".flota.lock").read_text()


def test_a_full_disk_costs_files_not_the_job(flota):
    """The directory's small file system fills up after the start; the job still ends with the worker's own code."""
    if os.getuid() != 0:
        pytest.skip("mounting needs root")
    (flota.directory / "log").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", flota.directory / "log"], check=True)
    try:
        code = (
            "import os, sys\ntry:\n open('log/fill', 'wb', 0).write(bytes(1 << 20))\nexcept OSError: pass\nsys.exit(6)"
        )
        result = flota.run(script(flota, code))
    finally:
        subprocess.run(["umount", flota.directory / "log"], check=True)

    assert result.returncode == 6, result.stderr
    assert "Traceback" not in result.stderr


def on_small_disk(flota, limit="size=128k"):
    """The command, with a log directory that has its own small file system. Only this process sees it."""
    if os.getuid() != 0:
        pytest.skip("mounting needs root")
    (flota.directory / "log").mkdir()
    return ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o {limit} tmpfs log && exec {COMMAND} "$@"', "flota"]


FILL = """\
import os, sys
try:
    with open("log/fill", "ab", 0) as file:
        while file.write(bytes(4096)):
            pass
except OSError:
    pass
"""


def test_a_worker_that_cannot_print_on_a_full_disk_failed_because_of_the_disk(flota):
    ended = flota.run(script(flota, f"{FILL}print('x' * 100_000, flush=True)"), command=on_small_disk(flota))

    assert ended.returncode == 1
    assert "rank 0 failed first: exit code 1 (the disk of the log directory is full)" in ended.stderr
    assert "hint: run `df -h`" in ended.stderr


def test_rotation_without_inodes_loses_no_line(flota):
    code = """
try:
    for n in range(100): open(f"log/{n}", "x").close()
except OSError: pass
for n in range(1000): print("line", n)
"""
    result = flota.run("--log_max_size", "1K", script(flota, code), command=on_small_disk(flota, "nr_inodes=50"))

    assert result.stdout.splitlines() == [f"line {n}" for n in range(1000)]
    assert result.stderr.count("workerlog.0: No space left on device; continuing in the file that is open") == 1


def test_another_exit_code_on_a_full_disk_keeps_its_meaning(flota):
    ended = flota.run(script(flota, f"{FILL}sys.exit(6)"), command=on_small_disk(flota))

    assert ended.returncode == 6
    assert "rank 0 failed first: exit code 6 after" in ended.stderr
    assert "hint: the disk of the log directory is full, so its last output may be missing" in ended.stderr


FAILS_ON_FULL_DISK = f"""\
import os, time
import flota
give_up = time.monotonic() + 60
while os.stat("log/workerlog.0").st_blocks * 512 < 16 << 10 and time.monotonic() < give_up:
    time.sleep(0.01)
flota.record()
{FILL}
print("x" * 10_000)
raise RuntimeError("no checkpoint")
"""


@pytest.mark.parametrize("flags", [(), ("--log_max_size", "1M")], ids=["file", "rotated"])
def test_a_traceback_is_written_on_a_disk_that_became_full(flota, flags):
    *small_disk, run, name = on_small_disk(flota)
    run = run.replace("exec ", "") + '; code=$?; cp log/* .; stat -c %b log/workerlog.0 > blocks; exit "$code"'

    ended = flota.run(*flags, script(flota, FAILS_ON_FULL_DISK), command=[*small_disk, run, name])

    assert ended.returncode == 1
    assert "rank 0 failed first: exit code 1 (RuntimeError)" in ended.stderr
    assert "RuntimeError: no checkpoint" in (flota.directory / "workerlog.0").read_text()
    report = json.loads((flota.directory / "report.json").read_text())
    assert report["failures"][0]["said"][-1] == "RuntimeError: no checkpoint"
    assert not list(flota.directory.glob("error.*")), "flota.record leaves no incomplete file"
    assert int((flota.directory / "blocks").read_text()) * 512 <= 12 << 10, "the rest of the room was given back"


def test_a_job_restarts_on_a_full_disk(flota):
    """Also the worker's log has no room, so the line that begins the round cannot be written."""
    fill_log = "try:\n    while os.write(1, bytes(100)): pass\nexcept OSError:\n    sys.exit(6)"
    code = f"{FILL}if os.environ['FLOTA_ATTEMPT'] == '1': sys.exit(0)\n{fill_log}"
    ended = flota.run("--max_restart", 1, script(flota, code), command=on_small_disk(flota))

    assert ended.returncode == 0, ended.stderr
    assert "restarting (1 of 1)" in ended.stderr


REMOVES = """\
import glob, os, shutil, sys, time
if os.environ["FLOTA_ATTEMPT"] == "0":
    while not any("worker_started" in open(path).read() for path in glob.glob("log/events.*")):
        time.sleep(0.01)
    shutil.rmtree("log")
    sys.exit(6)
print("second attempt")
"""


@pytest.mark.parametrize(
    "flags", [(), ("-r", 3, "-t", 3), ("--log_max_size", "1M")], ids=["one file", "two", "rotated"]
)
def test_a_job_whose_log_directory_was_removed_restarts_in_a_new_one(flota, flags):
    ended = flota.run("--max_restart", 1, *flags, script(flota, REMOVES))

    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("were removed; creating new ones") == 1
    assert ended.stdout == "second attempt\n"
    assert any("second attempt" in path.read_text() for path in (flota.directory / "log").glob("workerlog.0*"))
    assert "finished successfully" in flota.run("why").stdout


def test_a_job_whose_log_directory_was_removed_leaves_its_report(flota):
    ended = flota.run(script(flota, REMOVES))

    assert ended.returncode == 6
    assert ended.stderr.count("were removed; creating new ones") == 1
    assert "rank 0 failed first: exit code 6" in flota.run("why").stdout


# A log directory that another user has prepared.


def prepared(flota, name, make):
    """A log directory in which others can write, with this file."""
    log = flota.directory / "log"
    log.mkdir()
    (flota.directory / "victim").write_text("precious")
    make(log / name)
    log.chmod(0o777)


def link_to_victim(path):
    path.symlink_to("../victim")


@pytest.mark.parametrize("make", [link_to_victim, os.mkfifo], ids=["link", "fifo"])
@pytest.mark.parametrize("name", [".flota.lock", "workerlog.0"])
def test_a_file_that_is_not_ours_is_refused_at_the_start(flota, name, make):
    prepared(flota, name, make)

    ended = flota.run("--log_overwrite", "prints.py")

    assert ended.returncode == 2
    assert "cannot write to the log directory `log`" in ended.stderr.replace(str(flota.directory) + "/", "")
    assert (flota.directory / "victim").read_text() == "precious"


@pytest.mark.parametrize("make", [link_to_victim, os.mkfifo], ids=["link", "fifo"])
def test_an_events_file_that_is_not_ours_costs_only_the_events(flota, make):
    prepared(flota, f"events.{os.uname().nodename}.jsonl", make)

    ended = flota.run(script(flota, "print('hello')"))

    assert (ended.returncode, ended.stdout) == (0, "hello\n")
    assert ended.stderr.count("warning: cannot write ") == 1
    assert (flota.directory / "victim").read_text() == "precious"


def test_without_inotify_the_files_are_looked_at(flota):
    """The system's watches can be used up by others."""
    code = "import flota.libc as c\ncall = c.call\nc.call = lambda name, *rest: -1 if 'add_watch' in name else call(name, *rest)\nimport sys\nfrom flota.cli.main import main\nsys.exit(main(sys.argv[1:]))"

    result = flota.run("prints.py", command=[sys.executable, "-c", code], env={"LINES_TO_PRINT": "3000"})

    assert len(result.stdout.splitlines()) == 3000


def test_an_earlier_jobs_report_is_not_taken_for_this_ones(flota):
    flota.run("prints.py", env={"LINES_TO_PRINT": "1"})
    running = flota.start("sleeps.py")
    running.wait_for("ready.0.0")

    wait_until(lambda: not (flota.directory / "log" / "report.json").exists(), "the old report to go")
