"""The command line as typed: scripts, interpreters, variables, help, and every kind of bad input."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from shutil import which

import pytest

from tests.launching import COMMAND, WORKERS, environment, wait_until

FLEETRUN = COMMAND.parent / "fleetrun"

ODD = "\x1b[31modd\x1b]0;title\x07\r\x9b2J\nflota: error: x"


def dump(flota, rank=0):
    return json.loads((flota.directory / f"dump.{rank}.json").read_text())


BAD_INPUT = [
    (["--nproc-per-nodee", "2", "train.py"], "unknown flag `--nproc-per-nodee`", "did you mean --nproc-per-node?"),
    (["--zzzz", "train.py"], "unknown flag `--zzzz`", "flota --help all"),
    (["-np", "2", "train.py"], "unknown flag `-np`", "write --nproc_per_node N"),
    (["--epochs", "2", "train.py"], "unknown flag `--epochs`", "the script's flags go after the script"),
    (["-x", "train.py"], "unknown flag `-x`", "flota --help all"),
    (["--stand", "train.py"], "flags cannot be abbreviated: `--stand`", "write --standalone"),
    (["--log", "x", "train.py"], "flags cannot be abbreviated: `--log`", "--log-dir or "),
    ([], "no script given", "`flota train.py`"),
    (["missing.py"], "no such script: `missing.py`", "check the path"),
    (["tarin.py"], "no such script: `tarin.py`", "did you mean `train.py`?"),
    (["."], "the script is a directory: `.`", "flota ./train.py"),
    (["--no-python", "no-such-program"], "no such program: `no-such-program`", "command -v no-such-program"),
    (["--python", "no-python", "train.py"], "no interpreter at `no-python`", "--python PATH"),
    (["--nproc_per_node", "0", "train.py"], "`0`", "--nproc_per_node 8"),
    (["--nproc_per_node", "-3", "train.py"], "`-3`", "--nproc_per_node 8"),
    (
        ["--nproc_per_node", "two", "train.py"],
        "`two` for --nproc_per_node: expected a number from 1 to 10000, or gpu, cpu, auto",
        "--nproc_per_node 8",
    ),
    (
        ["--nproc_per_node", "gpu", "train.py"],
        "--nproc_per_node gpu: this machine has no such device",
        "--nproc_per_node cpu",
    ),
    (["--nproc_per_node"], "--nproc_per_node needs a value", "--nproc_per_node N"),
    (["--nnodes", "0", "train.py"], "`0`", "--nnodes 4"),
    (["--nnodes", "abc", "train.py"], "`abc`", "--nnodes 2:4"),
    (["--nnodes", "3:2", "train.py"], "`3:2`", "--nnodes 2:4"),
    (["--rank", "5", "train.py"], "--rank 5 is out of range: the job has 1 node", "leave it out"),
    (["--devices", "0,1", "train.py"], "unknown device `0`: this machine has no devices", "--devices cpu"),
    (["--log_level", "loud", "train.py"], "`loud`", "--log_level INFO"),
    (["--grace", "soon", "train.py"], "invalid value `soon` for --grace: expected a duration", "30s, 2m or 1h"),
    *(
        (
            ["--preempt-signal", word, "train.py"],
            f"invalid value `{word}` for --preempt-signal: expected {what}",
            "--preempt-signal SIGUSR1",
        )
        for what, words in {
            "the name of a signal": ["SIGUSR1,SIGUSR2", "SIGKILL", "SIG_IGN", "SIG_BLOCK", "12", ""],
            "a signal that is not reserved": ["SIGCHLD", "CLD", "SIGTSTP", "SIGCONT", "SIGINT", "SEGV"],
        }.items()
        for word in words
    ),
    (
        ["--signals-to-handle", "SIG_BLOCK", "x.py"],
        "for --signals-to-handle: expected names of signals",
        "SIGTERM,SIGINT",
    ),
    (
        ["--start_port", "70000", "train.py"],
        "`70000` for --start_port: expected a port from 1 to 65535",
        "--start_port 6070",
    ),
    (["--port-range", "9:5", "train.py"], "`9:5`", "--port-range 35100:64000"),
    (["--redirects", "7", "train.py"], "`7`", "0:3,1:2"),
    (["--framework", "caffe", "train.py"], "`caffe`", "--framework torch"),
    (["--env", "novalue", "train.py"], "`novalue`", "NCCL_DEBUG=INFO"),
    (["--signals-to-handle", "SIGFOO", "train.py"], "`SIGFOO`", "SIGTERM,SIGINT,SIGUSR1"),
    (
        ["--run_mode", "bogus", "train.py"],
        "`bogus` for --run_mode: expected one of collective, ps, ps-heter, rpc",
        "--run_mode collective",
    ),
    (["--log_dir", "train.py", "train.py"], "cannot write to the log directory", "--log_dir DIR"),
    (["--ips", "203.0.113.7", "train.py"], "`203.0.113.7` is not an address of this machine", "ip -brief address"),
    (["-m", "--no-python", "train"], "-m and --no-python contradict each other", "not both"),
    (
        ["--interactive", "--nproc_per_node", "2", "train.py"],
        "--interactive and --nproc_per_node 2 contradict",
        "not both",
    ),
    (["--start_port", "6000", "--port-range", "5000:6000", "train.py"], "contradict each other", "not both"),
    (["--auto_tuner_json", "x", "train.py"], "cannot use `--auto_tuner_json`", "leave it out"),
    (["--logs-specs", "x", "train.py"], "cannot use `--logs-specs`", "leave it out"),
    (["run_check"], "cannot use `run_check`", "a small script of your own"),
    (["--help", "bogus"], "for --help: expected one of all, script,", "flota --help workers"),
    (["--log_dir", "", "train.py"], "invalid value `` for --log_dir: expected a directory", "--log_dir log"),
    (["--log_dir", "a/{rank}", "train.py"], "--log_dir `a/{rank}`: `{rank}` is not a placeholder", "{host} or {pid}"),
    (["--log_dir", "a/{time", "train.py"], "--log_dir `a/{time`: unmatched `{`", "'runs/{job_id}/{time}'"),
    (["why", "a/{rank}"], "flota why `a/{rank}`: `{rank}` is not a placeholder", "--log_dir 'runs/{job_id}/{time}'"),
    (["why", "--log_dir="], "--log-dir needs a value", "--log-dir"),
    (["--log_backups", "-1", "train.py"], "`-1`", "--log_backups 3"),
    (["--restart-on", "3,oom", "train.py"], "causes (aborted, bad-path,", "--restart-on SIGKILL"),
    (["--no-restart-on", "SIGNONE", "train.py"], "`SIGNONE`", "--no-restart-on SIGKILL"),
    (["--no-restart-on", "256", "train.py"], "`256`", "--no-restart-on SIGKILL"),
    (["why", "--loud"], "unknown flag `--loud`", "--log-dir, --verbose"),
    *(
        (
            ["--hang-timeout", word, "train.py"],
            f"`{word}` for --hang-timeout: expected a duration of 1s or more, or auto",
            "--hang-timeout 10m",
        )
        for word in ("0", "soon")
    ),
    (["--native-stacks", "train.py"], "--native-stacks", "--hang-timeout"),
    (["--warm-memory", "1G", "train.py"], "--warm-memory", "--warm"),
    (
        ["--chaos", "kill=60s,burn=1m", "train.py"],
        "invalid value `burn=1m` for --chaos: expected KIND=INTERVAL, where KIND is one of kill, hang, pause, shepherd, node",
        "for example --chaos kill=60s,node=10m,seed=7",
    ),
    (["--snapshot_every", "1m", "train.py"], "--snapshot_every has an effect only with --snapshot_dir", "add --snap"),
    (["--snapshot_copies", "2", "train.py"], "--snapshot_copies has an effect only with --nnodes", "add --nnodes"),
    (["--job_id", "--max_restart", "3", "train.py"], "--job_id needs a value", "--job_id NAME"),
    (
        ["--start_port", "65535", "--nproc_per_node", "3", "train.py"],
        "expected a port that leaves room for 3 workers",
        "--start_port 6070",
    ),
    (
        ["--ips", "203.0.113.7,203.0.113.8", "train.py"],
        "this machine is not in --ips `203.0.113.7,2",
        "ip -brief address",
    ),
    (
        ["--nnodes", "2", "--rank", "2", "train.py"],
        "--rank 2 is out of range: the job has 2 nodes",
        "--rank 0 to --rank 1",
    ),
    (["--nnodes", "2", "--master", "10.0.0.1", "train.py"], "--master has no port: `10.0.0.1`", "10.0.0.1:8090"),
    (
        ["--master", "127.0.0.1:8090", "train.py"],
        "--master is given without the number of nodes",
        "add --nnodes 2, or --nnodes 1",
    ),
    (
        ["--master", "etcd://me:secret@a", "train.py"],
        "--master contains a user name or password",
        "FLOTA_ETCD_PASSWORD_FILE",
    ),
    (
        ["--nnodes", "2", "--network-interface", "no0", "train.py"],
        "interface `no0` does not exist, is down or has no address",
        "choose one of these",
    ),
    (["--servers=127.0.0.1:6170", "train.py"], "no trainer addresses given", "--trainers 10.0.0.1"),
    (["--workers=127.0.0.1:6171", "train.py"], "no server addresses given", "--servers 10.0.0.1"),
    (
        ["--servers=127.0.0.1:6170", "--trainer_num=2", "train.py"],
        "no trainer addresses given; --trainer_num sets a number, not addresses",
        "--trainers 10.0.0.1",
    ),
    (
        ["--servers=127.0.0.1:6170", "--trainers=127.0.0.1:6170", "train.py"],
        "`127.0.0.1:6170` is listed twice, for a server and a trainer",
        "a different port for each",
    ),
    (
        ["--servers=127.0.0.1:6170", "--trainers=127.0.0.1", "--start_port=7000", "train.py"],
        "--start_port and --servers contradict each other: both set the workers' ports",
        "not both",
    ),
    (
        ["--servers=127.0.0.1:6767", "--trainers=127.0.0.1", "train.py"],
        "invalid value `6767` for --gloo_port: expected a port that is not listed for a server",
        "--gloo_port 7767",
    ),
    (
        ["--servers=127.0.0.1:6170,10.7.7.7:6170", "--trainers=127.0.0.1:8001", "--gloo_port=8000", "train.py"],
        "invalid value `8000` for --gloo_port: expected a port that is followed by a free port for the master",
        "--gloo_port 7767",
    ),
    (
        ["--servers=127.0.0.1:6170,10.7.7.7:6170", "--trainers=127.0.0.1", "--gloo_port=65535", "train.py"],
        "invalid value `65535` for --gloo_port: expected a port that is followed by a free port for the master",
        "--gloo_port 7767",
    ),
    (
        ["--servers=127.0.0.1:1,127.0.0.1:1", "--trainers=127.0.0.1", "train.py"],
        "`127.0.0.1:1` is listed twice, for two servers",
        "a different port for each",
    ),
    (
        ["--servers=127.0.0.1:1", "--server_num=2", "--trainers=127.0.0.1", "train.py"],
        "--server_num 2 and --servers 127.0.0.1:1 contradict each other: 1 address listed",
        "not both",
    ),
    (
        ["--servers=127.0.0.1", "--trainers=127.0.0.1", "train.py"],
        "`127.0.0.1` for --servers: expected addresses with ports",
        "10.0.0.1:6170",
    ),
    (["--servers=10.9.9.9:1", "--trainers=10.9.9.9", "train.py"], "this machine is not in --servers `10.9.9.9`", "ip "),
    (["--heter_worker_num=2", "train.py"], "--heter_worker_num: the job would have no trainers", "--trainer_num N"),
    (["--heter_devices", "cpu;gpu", "train.py"], "--heter_devices: the job would have no trainers", "--trainer_num N"),
    (
        ["--trainer_num=2", "--heter_worker_num=1;x", "train.py"],
        "expected a number, or one for each stage",
        "--heter_worker_num 2",
    ),
    (
        ["--trainer_num=2", "--heter_worker_num=2", "--heter_devices=gpu", "train.py"],
        "--heter_devices gpu: this machine has no such device",
        "--heter_devices cpu",
    ),
    (
        ["--trainer_num=2", "--heter_worker_num=2", "--heter_devices=cpu;cpu", "train.py"],
        "expected one kind, or one for each of 1 stages",
        "'gpu;cpu'",
    ),
    (["--trainer_num=0", "train.py"], "--trainer_num 0: the job would have no trainers", "--server_num 1"),
    (
        ["--server_num=x", "train.py"],
        "invalid value `x` for --server_num: expected a whole number, 0 or more",
        "--server_num 3",
    ),
    (
        ["--run_mode=collective", "--server_num=2", "train.py"],
        "--run_mode collective and --server_num contradict each other: --server_num is for ps",
        "not both",
    ),
    (
        ["--run_mode=ps", "--nproc_per_node=2", "train.py"],
        "--nproc_per_node and --run_mode ps contradict each other",
        "not both",
    ),
    (["--roles=trainer", "train.py"], "`trainer` for --roles: expected roles and their counts", "trainer=4"),
    (["--roles=trainer=1,worker=1", "train.py"], "would write to the same log workerlog.N", "rename one"),
    (["--roles=trainer=0", "train.py"], "this node would not start any workers", "--trainer_num 1"),
    (
        ["--roles=trainer=1", "--server_num=1", "train.py"],
        "--roles and --server_num contradict each other",
        "not both",
    ),
    (
        ["--devices", "4", "ipu", "--hosts=localhost", "train.py"],
        "`ipu` needs --nproc_per_host, --ipus_per_replica, --ipu_partition, --vipu_server",
        "write `flota --devices 4 ipu --hosts=localhost",
    ),
    (
        ["--numa-binding", "gpu", "train.py"],
        "invalid value `gpu` for --numa-binding: expected one of none, auto, numa, socket, cache, core, node, exclusive, core-complex",
        "for example --numa-binding none",
    ),
    (["--enable_gpu_log", "true", "train.py"], "cannot use `--enable_gpu_log`", "leave it out"),
    (
        ["--elastic_pre_hook", "true", "train.py"],
        "cannot use `--elastic_pre_hook`: run it in each worker",
        "leave it out",
    ),
    (["completion", "tcsh"], "`tcsh` for flota completion: expected bash, zsh or fish", "flota completion bash"),
]


@pytest.mark.parametrize(
    ("words", "message", "hint"), BAD_INPUT, ids=[" ".join(words) or "nothing" for words, _, _ in BAD_INPUT]
)
def test_bad_input_is_one_line_and_a_hint_and_starts_nothing(flota, words, message, hint):
    (flota.directory / "train.py").write_text("open('started', 'w')")

    result = flota.run(*words)

    error, _, hints = result.stderr.partition("\n\n")
    assert result.returncode == 2
    assert error.startswith("flota: error: ")
    assert "\n" not in error
    assert message in error
    assert hints.startswith("hint: ")
    assert hint in hints
    assert hints.count("\n") == 1
    assert result.stdout == ""
    assert not (flota.directory / "started").exists()


def test_a_link_that_leads_nowhere_is_not_suggested_for_itself(flota):
    (flota.directory / "link.py").symlink_to("link.py")

    result = flota.run("link.py")

    assert result.stderr.startswith("flota: error: no such script: `link.py`\n\nhint: check the path")


def test_the_plan_of_many_machines_has_places_for_the_others(flota):
    words = ["--nnodes", "3", "--nproc_per_node", "2", "--rank", "1", "--master", "127.0.0.1:8090"]

    result = flota.run(*words, "--dry-run", "--json", "sleeps.py", env={"FLOTA_TOKEN": "hunter2"})

    workers = json.loads(result.stdout)["workers"]
    assert [worker["rank"] for worker in workers] == [2, 3]
    assert workers[0]["env"]["MASTER_ADDR"] == "<node 0>"
    assert workers[0]["env"]["WORLD_SIZE"] == "6"
    assert workers[0]["env"]["PADDLE_CURRENT_ENDPOINT"] == "127.0.0.1:<free>"
    assert "FLOTA_TOKEN" in workers[0]["removed"]
    assert "hunter2" not in result.stdout


def test_the_plan_of_listed_machines_has_their_addresses(flota):
    words = ["--ips", "127.0.0.1,203.0.113.7", "--start_port", "7000", "--dry-run", "--json"]

    workers = json.loads(flota.run(*words, "sleeps.py").stdout)["workers"]

    assert workers[0]["env"]["PADDLE_TRAINER_ENDPOINTS"] == "127.0.0.1:7000,203.0.113.7:7000"


def test_workers_never_get_the_secrets_of_the_store(flota):
    secrets = ("FLOTA_TOKEN", "FLOTA_TOKEN_FILE", "FLOTA_ETCD_PASSWORD", "FLOTA_ETCD_PASSWORD_FILE")

    flota.run("dumps_env.py", env=dict.fromkeys(secrets, "x"))

    assert not set(secrets) & set(dump(flota)["env"])


def test_more_workers_than_devices_named_is_an_error(flota):
    result = flota.run(
        "--devices", "0,1", "--nproc_per_node", "4", "sleeps.py", env={"CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    )

    assert result.returncode == 2
    assert "4 workers need 4 devices, but --devices lists only 2" in result.stderr


def test_an_unknown_device_is_named_with_those_there_are(flota):
    result = flota.run("--gpus", "7", "sleeps.py", env={"CUDA_VISIBLE_DEVICES": "4,5"})

    assert result.returncode == 2
    assert "unknown gpu device `7`: this machine has `4,5`" in result.stderr


def test_too_few_free_ports_name_the_range(flota):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

        result = flota.run("--port-range", f"{port}:{port}", "sleeps.py")

    assert result.returncode == 2
    assert f"4 free ports are needed, but {port}:{port} has only 0" in result.stderr


def test_a_start_port_in_use_is_an_error(flota):
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]

        result = flota.run("--start_port", port, "sleeps.py")

    assert result.returncode == 2
    assert f"port {port} is in use" in result.stderr


def test_an_unwritable_log_directory_is_an_error_also_for_a_file_in_the_way(flota):
    (flota.directory / "log").mkdir()
    (flota.directory / "log" / "workerlog.0").mkdir()

    result = flota.run("sleeps.py")

    assert result.returncode == 2
    assert "cannot write to the log directory" in result.stderr


def test_flags_after_the_script_are_the_scripts(flota):
    flota.run("dumps_env.py", "--lr=0.1", "--nproc_per_node", "7", "--help")

    assert dump(flota)["argv"][1:] == ["--lr=0.1", "--nproc_per_node", "7", "--help"]


@pytest.mark.parametrize("spelling", ["--nproc_per_node=2", "--nproc-per-node=2", "--nproc_per-node=2"])
def test_dashes_and_underscores_are_the_same(flota, spelling):
    flota.run(spelling, "dumps_env.py")

    assert dump(flota, 1)["env"]["WORLD_SIZE"] == "2"


def test_run_is_the_default_subcommand_and_a_way_to_scripts_named_like_one(flota):
    (flota.directory / "completion").write_text("import pathlib; pathlib.Path('ran').touch()")

    assert flota.run("run", "completion").returncode == 0
    assert (flota.directory / "ran").exists()


def test_scripts_run_unbuffered_in_sessions_of_their_own_with_no_stdin(flota):
    flota.run("--nproc_per_node", 2, "dumps_env.py")

    for rank in range(2):
        assert dump(flota, rank)["orig_argv"][1] == "-u"
        assert dump(flota, rank)["sid"] == dump(flota, rank)["pid"]
        assert dump(flota, rank)["stdin"] == "/dev/null"
        assert dump(flota, rank)["cwd"] == str(flota.directory)


def test_modules_run_by_name(flota):
    (flota.directory / "pack").mkdir()
    (flota.directory / "pack" / "train.py").write_text((WORKERS / "dumps_env.py").read_text())

    assert flota.run("-m", "pack.train", "x").returncode == 0
    assert dump(flota)["argv"][1:] == ["x"]


def test_no_python_runs_a_program_of_the_path(flota):
    result = flota.run(
        "--nproc_per_node", 2, "--console", "all", "--no-python", "echo", "${local_rank} of ${rank}, not ${x}"
    )

    assert sorted(line.split("] ")[1] for line in result.stdout.splitlines()) == [
        "0 of 0, not ${x}",
        "1 of 1, not ${x}",
    ]


def test_an_executable_that_is_not_python_is_executed(flota):
    program = flota.directory / "train.sh"
    program.write_text("#!/bin/sh\necho rank $RANK\n")
    program.chmod(0o755)

    assert flota.run("train.sh").stdout == "rank 0\n"


def test_a_file_that_is_not_executable_is_run_by_python(flota):
    (flota.directory / "train").write_text("print('python')")

    assert flota.run("train").stdout == "python\n"


def test_python_m_flota_runs_workers_with_the_same_interpreter(flota):
    flota.run("dumps_env.py", command=[sys.executable, "-m", "flota"], env={"VIRTUAL_ENV": "/nonexistent"})

    assert dump(flota)["orig_argv"][0] == sys.executable


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_the_active_environments_python_runs_the_workers(flota, variable):
    (flota.directory / "env" / "bin").mkdir(parents=True)
    (flota.directory / "env" / "bin" / "python").symlink_to(sys.executable)

    flota.run("dumps_env.py", env={variable: str(flota.directory / "env")})

    assert dump(flota)["orig_argv"][0] == str(flota.directory / "env" / "bin" / "python")


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_the_interpreter_can_be_named(flota, how):
    (flota.directory / "mypython").symlink_to(sys.executable)
    path = str(flota.directory / "mypython")
    flags, env = (["--python", path], {}) if how == "flag" else ([], {"PYTHON_EXEC": path})

    flota.run(*flags, "dumps_env.py", env=env)

    assert dump(flota)["orig_argv"][0] == path


def test_torch_launch_inserts_the_local_rank_first(flota):
    flota.run("--nproc_per_node", 2, "dumps_env.py", "x", command=[sys.executable, "-m", "flota.torch_launch"])

    assert dump(flota, 1)["argv"][1:] == ["--local-rank=1", "x"]
    assert dump(flota, 1)["env"]["LOCAL_RANK"] == "1"


def test_torch_launch_with_use_env_inserts_nothing(flota):
    flota.run("--use-env", "dumps_env.py", "x", command=[sys.executable, "-m", "flota.torch_launch"])

    assert dump(flota)["argv"][1:] == ["x"]


def test_settings_do_not_show_a_local_rank_that_use_env_leaves_out(flota):
    launch = [sys.executable, "-m", "flota.torch_launch"]

    shown = [flota.run("--verbose", *flags, "dumps_env.py", command=launch).stderr for flags in ([], ["--use-env"])]

    assert ["legacy_local_rank: True" in block for block in shown] == [True, False]
    assert "use_env: True" in shown[1]


def test_a_flag_after_the_script_that_the_script_refuses_is_named(flota):
    (flota.directory / "strict.py").write_text("import argparse\nargparse.ArgumentParser().parse_args()\n")

    result = flota.run("strict.py", "--lr=1", "--nproc-per-node=2")

    assert result.returncode == 2
    assert "hint: flota has a flag --nproc-per-node: write flota's flags before the script\n" in result.stderr


def test_torch_launch_without_python_needs_use_env(flota):
    result = flota.run("--no-python", "true", command=[sys.executable, "-m", "flota.torch_launch"])

    assert result.returncode == 2
    assert "--use-env" in result.stderr


def test_flota_itself_inserts_nothing_unless_asked(flota):
    flota.run("dumps_env.py")
    assert dump(flota)["argv"][1:] == []

    flota.run("--legacy-local-rank", "dumps_env.py")
    assert dump(flota)["argv"][1:] == ["--local-rank=0"]


def test_fleetrun_is_the_same_command(flota):
    assert (
        flota.run("--gpus=0,1", "dumps_env.py", command=[FLEETRUN], env={"CUDA_VISIBLE_DEVICES": "0,1"}).returncode == 0
    )
    assert dump(flota, 1)["env"]["PADDLE_TRAINERS_NUM"] == "2"


def test_settings_come_from_the_command_line_then_variables_then_the_file(flota):
    (flota.directory / "flota.toml").write_text(
        'nproc_per_node = 4\nlog_dir = "from_file"\nenv = { A = "1", B = "2" }\n'
    )

    def world(*flags, **env):
        flota.run(*flags, "dumps_env.py", env=env)
        return dump(flota)["env"]["WORLD_SIZE"]

    assert world() == "4"
    assert world(PADDLE_NPROC_PER_NODE="3") == "3"
    assert world(PADDLE_NPROC_PER_NODE="3", FLOTA_NPROC_PER_NODE="2") == "2"
    assert world("--nproc_per_node", "1", FLOTA_NPROC_PER_NODE="2") == "1"
    assert (flota.directory / "from_file" / "workerlog.3").exists()
    assert (dump(flota)["env"]["A"], dump(flota)["env"]["B"]) == ("1", "2")


def test_pyproject_may_hold_the_settings(flota):
    (flota.directory / "pyproject.toml").write_text("[tool.flota]\nnproc-per-node = 3\n")

    flota.run("dumps_env.py")

    assert dump(flota)["env"]["WORLD_SIZE"] == "3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nproc = 2", "unknown key `nproc` in flota.toml"),
        ("x = [", "cannot read flota.toml"),
        ("nproc_per_node = 0", "for `nproc_per_node` in flota.toml: expected a number"),
    ],
)
def test_a_bad_config_file_is_one_line(flota, text, message):
    (flota.directory / "flota.toml").write_text(text)

    result = flota.run("sleeps.py")

    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_flota_inside_a_worker_starts_a_job_of_its_own(flota):
    code = f"import subprocess, sys\nsys.exit(subprocess.call([{str(COMMAND)!r}, '--log_dir', 'inner', {str(WORKERS / 'dumps_env.py')!r}]))"
    (flota.directory / "outer.py").write_text(code)

    result = flota.run("--nproc_per_node", 1, "--job_id", "outer", "outer.py", env={"CUDA_VISIBLE_DEVICES": ""})

    assert result.returncode == 0
    env = dump(flota)["env"]
    assert (env["WORLD_SIZE"], env["FLOTA_JOB_ID"], env["PADDLE_LOG_DIR"]) == (
        "1",
        "default",
        str(flota.directory / "inner"),
    )


@pytest.mark.parametrize(
    "words",
    [
        ("--nproc_per_node", ODD),
        (f"--{ODD}",),
        (ODD,),
        ("stack", ODD),
        ("why", ODD),
        ("--log_dir", f"/dev/null/{ODD}", "prints.py"),
        ("--nnodes", 2, "--master", f"{ODD}:8090", "prints.py"),
        ("--nnodes", 2, "--master", ODD, "prints.py"),
        ("--nnodes", 2, "--master", f"http://{ODD},a:1", "prints.py"),
        ("--chaos", ODD, "prints.py"),
        ("--snapshot_dir", f"/dev/null/{ODD}", "prints.py"),
    ],
    ids=[
        *("value", "flag", "script", "rank", "directory", "log directory"),
        *("master", "master without a port", "masters", "chaos", "snapshots"),
    ],
)
def test_an_error_shows_the_control_characters_of_a_value_escaped(flota, words):
    ended = flota.run(*words)

    assert ended.returncode == 2
    assert ended.stderr.replace("\n", "").isprintable(), ended.stderr
    assert ended.stderr.count("flota: error: ") - ended.stderr.count("\\nflota: error: ") == 1
    assert "\nflota: error: x" not in ended.stderr
    assert "\\x1b[31modd\\x1b]0;title\\x07\\r\\x9b2J\\n" in ended.stderr


def test_a_limit_of_processes_is_named(flota):
    """The limit does not apply to root, so the fork fails as it does at the limit."""
    code = (
        "import os, sys\nfrom flota.cli.main import main\n"
        "def fork(): raise BlockingIOError(11, 'Resource temporarily unavailable')\n"
        "os.fork = fork\nsys.exit(main(sys.argv[1:]))"
    )

    ended = flota.run("prints.py", command=[sys.executable, "-c", code])

    assert ended.returncode == 2
    assert "the process limit has been reached\n\nhint: raise the process limit: `ulimit -u`" in ended.stderr


def test_a_bad_variable_is_named_and_a_flag_is_the_example(flota):
    result = flota.run("sleeps.py", env={"FLOTA_NPROC_PER_NODE": "zero0"})

    assert (
        "flota: error: invalid value `zero0` for FLOTA_NPROC_PER_NODE: expected a number from 1 to 10000"
        in result.stderr
    )
    assert "hint: for example --nproc_per_node 8" in result.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ["--master", "10.0.0.1:8080", "--nnodes", "1"],
        ["--master_port", "29501"],
        ["--rdzv-backend", "c10d"],
        ["--gloo_port", "7000"],
    ],
)
def test_flags_that_one_machine_does_not_need_say_so(flota, flags):
    result = flota.run(*flags, "dumps_env.py")

    assert result.returncode == 0
    assert f"{flags[0]} has no effect" in result.stderr


def test_an_unknown_variable_of_flotas_is_a_warning(flota):
    result = flota.run("dumps_env.py", env={"FLOTA_NPROC": "2"})

    assert result.returncode == 0
    assert result.stderr.count("flota: warning: unknown variable FLOTA_NPROC; did you mean FLOTA_NPROC_PER_NODE?") == 1


def test_old_names_work_with_one_quiet_note(flota):
    result = flota.run("--gpus", "1", "dumps_env.py", env={"CUDA_VISIBLE_DEVICES": "0,1"})

    assert result.returncode == 0
    assert result.stderr.count("--gpus is deprecated; use --devices") == 1


def test_a_flag_without_effect_says_so(flota):
    result = flota.run("--monitor-interval", "5", "--legacy=true", "dumps_env.py")

    assert "--monitor-interval has no effect" in result.stderr
    assert "--legacy has no effect" in result.stderr


def test_refused_switches_may_be_off(flota):
    assert flota.run("--enable_gpu_log=false", "--enable_auto_mapping", "no", "dumps_env.py").returncode == 0


def test_dry_run_shows_everything_and_starts_nothing(flota):
    result = flota.run("--nproc_per_node", 2, "--dry-run", "dumps_env.py", "--lr", "a b")

    assert "dumps_env.py --lr 'a b'" in result.stdout
    assert "PADDLE_CURRENT_ENDPOINT=127.0.0.1:<free>" in result.stdout
    assert "MASTER_PORT=<free>" in result.stdout
    everybody, own = result.stdout.split("variables of rank 0")
    assert "PADDLE_CURRENT_ENDPOINT" in own and "PADDLE_CURRENT_ENDPOINT=" not in everybody
    assert not (flota.directory / "log").exists()


def test_dry_run_as_json_says_what_a_real_run_gives(flota):
    planned = json.loads(flota.run("--nproc_per_node", 2, "--dry-run", "--json", "dumps_env.py").stdout)["workers"]
    flota.run("--nproc_per_node", 2, "dumps_env.py")

    for rank in range(2):
        real = dump(flota, rank)["env"]
        assert planned[rank]["command"] == dump(flota, rank)["orig_argv"]
        for name, value in planned[rank]["env"].items():
            if "<" not in value:
                assert real[name] == value, name


def test_help_fits_one_screen(flota):
    lines = flota.run("--help").stdout.splitlines()

    screen = lines[: lines.index("Examples:")]
    assert len(screen) <= 24
    assert max(map(len, lines)) <= 80
    first = "nproc_per_node devices log_dir console nnodes master max_restart hang_timeout warm dry_run".split()
    assert [line.split()[0] for line in screen if line.startswith("  --")] == [f"--{name}" for name in first]


def test_help_of_torch_launch_is_about_itself(flota):
    page = flota.run("--help", command=[sys.executable, "-m", "flota.torch_launch"]).stdout

    assert page.startswith("usage: python -m flota.torch_launch [FLAGS] SCRIPT [ARGUMENTS]\n")
    assert "inserts\n--local-rank=N" in page
    assert "  python -m flota.torch_launch --no_python ./train.sh\n" in page
    assert max(map(len, page.splitlines())) <= 80


def test_help_has_a_page_per_group(flota):
    from flota.cli.help import TITLES

    overview = flota.run("--help").stdout
    for group in TITLES:
        page = flota.run("--help", group).stdout
        assert len(page.splitlines()) <= 46, group
        assert max(map(len, page.splitlines())) <= 80, group
        assert group in overview


def test_bash_completes_flags_and_choices(flota):
    script = f"""
eval "$({COMMAND} completion bash)"
COMP_WORDS=(flota --elastic_l); COMP_CWORD=1; _flota; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(flota --run_mode p); COMP_CWORD=2; _flota; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(flota --nproc-p); COMP_CWORD=1; _flota; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(flota --log_level W); COMP_CWORD=2; _flota; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(flota wh); COMP_CWORD=1; _flota; echo "${{COMPREPLY[@]}}"
"""
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env=environment())

    assert result.stdout.splitlines() == ["--elastic_level", "ps ps-heter", "--nproc_per_node", "WARNING", "why"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_made_from_every_flag(flota, shell):
    from flota.cli.flags import FLAGS

    text = flota.run("completion", shell).stdout

    for flag in FLAGS:
        assert flag.refused or flag.dest in text


def test_completion_has_help(flota):
    assert flota.run("completion", "--help").stdout.startswith("usage: flota completion bash|zsh|fish\n")


@pytest.mark.skipif(not which("fish"), reason="no fish here: make test SYSTEM=1 installs it, as root")
def test_fish_completes_flags_and_choices(flota):
    script = f"{COMMAND} completion fish | source; complete -C 'flota --elastic_l'; complete -C 'flota --run_mode ps-'; complete -C 'flota wh'"

    result = subprocess.run(["fish", "-c", script], capture_output=True, text=True, check=True, env=environment())

    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == ["--elastic_level", "ps-heter", "why"]


@pytest.mark.skipif(not which("zsh"), reason="no zsh here: make test SYSTEM=1 installs it, as root")
def test_zsh_takes_the_completion_script(flota):
    script = f'autoload -U compinit; compinit -u -D; eval "$({COMMAND} completion zsh)"; print $_comps[flota] $_comps[fleetrun]'

    result = subprocess.run(["zsh", "-fc", script], capture_output=True, text=True, check=True, env=environment())

    assert (result.stdout.strip(), result.stderr) == ("_flota _flota", "")


def test_interactive_means_one_worker_with_all_devices(flota):
    flota.run("--interactive", "dumps_env.py", env={"CUDA_VISIBLE_DEVICES": "4,5"})

    assert (dump(flota)["env"]["WORLD_SIZE"], dump(flota)["env"]["FLAGS_selected_gpus"]) == ("1", "0,1")


def test_interactive_gives_the_terminal_to_one_worker(flota):
    """breakpoint() works: what is typed reaches the worker, what it prints reaches the terminal."""
    import pty

    (flota.directory / "debug.py").write_text("x = 41\nbreakpoint()\nprint('after', x)\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(flota.directory)
        os.execve(COMMAND, [str(COMMAND), "--interactive", "debug.py"], environment())
    seen = b""

    def shown(text):
        def check():
            nonlocal seen
            seen += os.read(terminal, 4096)
            return text in seen

        return check

    wait_until(shown(b"(Pdb)"), "the debugger's prompt")
    os.write(terminal, b"x = x + 1\nc\n")
    wait_until(shown(b"after 42"), "the result")

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
