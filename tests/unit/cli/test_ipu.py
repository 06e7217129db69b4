"""`ipu` in the script's place: poprun's command line, and every mistake in what it is made from."""

from __future__ import annotations

import pytest

from flota.cli.build_spec import make_spec
from flota.cli.ipu import IpuJob, poprun_arguments
from flota.cli.parse import parse
from flota.cli.settings import Request, gather
from flota.errors import FlotaError
from tests.ipu import ARGUMENTS, install_poprun

JOB = IpuJob(8, ("10.0.0.1", "10.0.0.2"), 2, 2, "pod16", "10.0.0.9")


@pytest.fixture
def environ(tmp_path, monkeypatch):
    """A directory with train.py, and poprun on PATH."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    return install_poprun(tmp_path)


def spec_of(words, environ):
    line = parse(words)
    return make_spec(Request(line, gather(line.given, environ, "."), environ, "/opt/python"))


def instance_of(argv):
    """The words behind poprun's own."""
    return [word for word in argv if not word.startswith("--") or word.startswith("--lr")]


def test_ipus_are_shared_out_to_replicas_and_these_to_instances_host_by_host():
    words = poprun_arguments(JOB, ("python", "train.py", "--lr", "a b"), ("POPART_LOG_LEVEL=INFO", "A"))

    places = ["10.0.0.1:8090 -x PADDLE_RANK_IN_NODE=0", "10.0.0.1:8090 -x PADDLE_RANK_IN_NODE=1"]
    places += [place.replace("10.0.0.1", "10.0.0.2") for place in places]
    assert words == (
        "--num-instances=4",
        "--num-replicas=4",
        "--ipus-per-replica=2",
        "--host=10.0.0.1,10.0.0.2",
        "--vipu-partition=pod16",
        "--vipu-server-host=10.0.0.9",
        "--update-partition=no",
        "--vipu-server-timeout=120",
        "--print-topology=yes",
        "--numa-aware=yes",
        "--mpi-local-args=-x POPART_LOG_LEVEL=INFO -x A -x PADDLE_TRAINERS_NUM=4 -x PADDLE_TRAINER_ENDPOINTS=10.0.0.1:8090,10.0.0.2:8090",
        *(
            f"--instance-mpi-local-args={number}:-x PADDLE_TRAINER_ID={number} -x PADDLE_CURRENT_ENDPOINT={place}"
            for number, place in enumerate(places)
        ),
        *("python", "train.py", "--lr", "a b"),
    )


def test_an_ipv6_host_is_in_brackets_in_endpoints_only():
    words = poprun_arguments(JOB._replace(hosts=("fd77::1",)), ("p",), ())

    assert "--host=fd77::1" in words
    assert "-x PADDLE_TRAINER_ENDPOINTS=[fd77::1]:8090" in words[10]


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        (["--devices", "4"], {}),
        ([], {"PADDLE_DEVICES": "4"}),
        (["--devices", "4"], {"CUDA_VISIBLE_DEVICES": "0,1,2"}),
        # What is so anyway may be said.
        ("--nnodes 1 --ips 127.0.0.1 --run_mode collective --rank 0 --devices 4".split(), {}),
    ],
)
def test_poprun_is_the_one_worker_and_has_the_ipus(environ, tmp_path, flags, variables):
    behind = ["train.py", "--lr=0.1", "--hosts", "x", "--devices=7"]

    spec = spec_of([*flags, "ipu", *ARGUMENTS, *behind], {**environ, **variables})

    assert (spec.command.kind, spec.command.target) == ("program", str(tmp_path / "sdk" / "poprun"))
    assert spec.command.args[-7:] == ("/opt/python", "-u", str(tmp_path / "train.py"), *behind[1:])
    assert {"--host=localhost", "--num-replicas=4"} <= set(spec.command.args)
    assert spec.workers == 1
    assert (spec.devices.kind, spec.devices.chosen) == ("ipu", ("0", "1", "2", "3"))
    assert not spec.devices.narrowed
    assert spec.frameworks == ("paddle",)


@pytest.mark.parametrize(
    "words",
    [
        "--hosts localhost --nproc_per_host 2 --ipus_per_replica 1 --ipu_partition pod16 --vipu_server 127.0.0.1".split(),
        [word.replace("_", "-") for word in ARGUMENTS],
        [*reversed(ARGUMENTS)],
        ["--hosts=elsewhere", *ARGUMENTS],
    ],
)
def test_arguments_are_understood_in_every_spelling_and_order(environ, words):
    usual = spec_of(["--devices", "4", "ipu", *ARGUMENTS, "train.py"], environ)

    made = spec_of(["--devices", "4", "ipu", *words, "train.py"], environ)
    assert made == usual._replace(run_id=made.run_id)
    spaced = spec_of(["--devices", "4", "ipu", *words, "--hosts", "a, b", "train.py"], environ)
    assert "--host=a,b" in spaced.command.args


@pytest.mark.parametrize(
    ("flags", "variables", "expected"),
    [
        ([], {}, "-x PADDLE_TRAINERS_NUM=2"),
        ([], {"POPART_LOG_LEVEL": "INFO"}, "-x POPART_LOG_LEVEL=INFO -x PADDLE_TRAINERS_NUM=2"),
        ([], {"POPART_LOG_LEVEL": ""}, "-x PADDLE_TRAINERS_NUM=2"),
        (["--env", "A=b c", "--env", "B=1"], {}, "-x A -x B -x PADDLE_TRAINERS_NUM=2"),
        (["--threads", "3", "--env", "OMP_NUM_THREADS=2"], {}, "-x OMP_NUM_THREADS -x PADDLE_TRAINERS_NUM=2"),
        (
            ["--env", "POPART_LOG_LEVEL=DEBUG"],
            {"POPART_LOG_LEVEL": "INFO"},
            "-x POPART_LOG_LEVEL=DEBUG -x PADDLE_TRAINERS_NUM=2",
        ),
    ],
)
def test_instances_get_the_variables_that_were_given_to_the_job(environ, flags, variables, expected):
    spec = spec_of(["--devices", "4", *flags, "ipu", *ARGUMENTS, "train.py"], {**environ, **variables})

    assert f"--mpi-local-args={expected} -x PADDLE_TRAINER_ENDPOINTS=localhost:8090" in spec.command.args


def test_an_executable_that_is_not_python_is_executed(environ, tmp_path):
    (tmp_path / "train.sh").touch(0o755)

    executed = spec_of(["--devices", "4", "ipu", *ARGUMENTS, "train.sh"], environ)
    interpreted = spec_of(["--run-path", "--devices", "4", "ipu", *ARGUMENTS, "train.sh"], environ)

    assert instance_of(executed.command.args) == [str(tmp_path / "train.sh")]
    assert instance_of(interpreted.command.args) == ["/opt/python", "-u", str(tmp_path / "train.sh")]


def test_a_file_named_ipu_is_run_by_its_path(environ, tmp_path):
    (tmp_path / "ipu").touch()

    spec = spec_of(["./ipu", "--hosts", "x"], environ)

    assert (spec.command.kind, spec.command.target, spec.command.args) == ("script", "./ipu", ("--hosts", "x"))


@pytest.mark.parametrize("missing", ARGUMENTS)
def test_every_argument_is_needed(environ, missing):
    with pytest.raises(FlotaError, match=f"`ipu` needs {missing.partition('=')[0]}") as caught:
        spec_of(["--devices", "4", "ipu", *(word for word in ARGUMENTS if word != missing), "train.py"], environ)

    assert caught.value.exit_code == 2
    assert "--devices 4 ipu --hosts=localhost" in caught.value.hint


MISTAKES = [
    # before `ipu`, behind it, message, hint
    ("", "train.py", "`ipu` needs --devices", "flota ./ipu"),
    ("--devices 0", "train.py", "invalid value `0` for --devices: expected a number of IPUs, 1 to 10000, before `ipu`", "--devices 4"),
    ("--devices 0,1,2,3", "train.py", "`0,1,2,3` for --devices: expected a number of IPUs", "--devices 4"),
    ("--devices 5", "--ipus_per_replica=2 train.py", "--devices 5: not a multiple of --ipus_per_replica 2", "4 or --devices 6"),
    ("--devices 1", "--ipus_per_replica=2 train.py", "not a multiple", "use --devices 2"),
    ("--devices 8", "--ipus_per_replica=2 --hosts=a,b,c train.py", "4 replicas cannot be divided among 6 instances", "use --devices 12"),
    ("--devices 4", "", "no script given", "pod16 --vipu_server=127.0.0.1 train.py"),
    ("--devices 4", "missing.py", "no such script: `missing.py`", "check the path"),
    ("--devices 4", "..", "the script is a directory: `..`", "name a file in it"),
    ("--devices 4", "--nproc_per_host=0 train.py", "invalid value `0` for --nproc_per_host: expected a number from 1 to 10000", "--nproc_per_host 1"),
    ("--devices 4", "--hosts= train.py", "invalid value `` for --hosts: expected hosts separated by commas", "10.0.0.1,10.0.0.2"),
    ("--devices 4", "--hosts=host[0-3] train.py", "`host[0-3]`", "10.0.0.1,10.0.0.2"),
    ("--devices 4", "--ipu_partition= train.py", "invalid value `` for --ipu_partition: expected a name without spaces", "--ipu_partition pod16"),
    ("--devices 4", "--vipu_server= train.py", "invalid value `` for --vipu_server: expected a host", "--vipu_server 127.0.0.1"),
    ("--devices 4", "--hosts --nproc_per_host=2 train.py", "--hosts needs a value", "--hosts HOSTS"),
    ("--devices 4", "--ipu=pod16 train.py", "flags cannot be abbreviated: `--ipu`", "write --ipu-partition"),
    ("--devices 4", "--vipu_servers=x train.py", "unknown flag `--vipu_servers`", "did you mean --vipu-server?"),
    ("--devices 4", "--log_dir=x train.py", "cannot use `--log_dir`: it comes after `ipu`", "flota --log_dir … ipu"),
    ("--devices 4", "train.py --out=${rank}", "cannot use `--out=${rank}`: all instances on IPUs share one", "PADDLE_TRAINER_ID"),
    ("--devices 4 -m", "train.py", "cannot use `-m`: `ipu` runs a script file", "leave it out"),
    ("--devices 4 --no-python", "train.py", "cannot use `--no-python`: `ipu` runs a script file", "leave it out"),
    ("--devices 4 --nproc_per_node 2", "train.py", "cannot use `--nproc_per_node`: with `ipu`, --nproc_per_host", "leave it out"),
    ("--devices 4 --nnodes 2", "train.py", "cannot use `--nnodes`: with `ipu`, --hosts", "leave it out"),
    ("--devices 4 --master 10.0.0.1:8090", "train.py", "cannot use `--master`", "leave it out"),
    ("--devices 4 --ips 10.0.0.1,10.0.0.2", "train.py", "cannot use `--ips`", "leave it out"),
    ("--devices 4 --start_port 7000", "train.py", "cannot use `--start_port`: all instances on IPUs use port 8090", ""),
    ("--devices 4 --virtual-local-rank", "train.py", "cannot use `--virtual-local-rank`: poprun assigns the IPUs", ""),
    ("--devices 4 --run_mode ps", "train.py", "cannot use `--run_mode`: a job on IPUs has no roles", "leave it out"),
    ("--devices 4 --rank 1", "train.py", "--rank 1 is out of range: the job has 1 node", "leave it out"),
    ("--devices 4 --json", "train.py", "--json has an effect only with --dry-run", "add --dry-run"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "behind", "message", "hint"), MISTAKES, ids=[f"{m[0]} ipu {m[1]}" for m in MISTAKES]
)
def test_a_mistake_is_one_line_and_a_hint(environ, before, behind, message, hint):
    with pytest.raises(FlotaError) as caught:
        spec_of([*before.split(), "ipu", *ARGUMENTS, *behind.split()], environ)

    assert caught.value.exit_code == 2
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    ("variables", "message", "hint"),
    [
        ({"PATH": "."}, "no such program: `poprun`", "Poplar SDK"),
        ({"PADDLE_NNODES": "2"}, "cannot use `PADDLE_NNODES`", ""),
    ],
)
def test_an_environment_that_does_not_fit_is_refused(environ, variables, message, hint):
    with pytest.raises(FlotaError) as caught:
        spec_of(["--devices", "4", "ipu", *ARGUMENTS, "train.py"], {**environ, **variables})

    assert caught.value.exit_code == 2
    assert caught.value.message.startswith(message)
    assert hint in caught.value.hint
