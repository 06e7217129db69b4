"""The table of flags: every default that was asked for, every old flag answered."""

from __future__ import annotations

import pytest

from flota.cli.convert import convert
from flota.cli.flags import ALIAS_OF, ALIASES, BY_NAME, FLAGS, GROUPS
from flota.cli.parse import parse
from flota.cli.settings import gather, without_parents_variables
from flota.errors import BadValue

# What the documentation of Paddle's and torch's launchers says of each default.
DEFAULTS = [
    ("master", None),
    ("rank", -1),
    ("log_level", "INFO"),
    ("nnodes", (1, 1)),
    ("nproc_per_node", None),
    ("log_dir", "log"),
    ("run_mode", "collective"),
    ("job_id", "default"),
    ("devices", None),
    ("host", None),
    ("ips", "127.0.0.1"),
    ("servers", ""),
    ("trainers", ""),
    ("heter_workers", ""),
    ("trainer_num", None),
    ("server_num", None),
    ("heter_worker_num", None),
    ("gloo_port", 6767),
    ("with_gloo", "0"),
    ("max_restart", 3),
    ("elastic_level", "-1"),
    ("elastic_timeout", 30.0),
    ("use_env", False),
    ("master_addr", "127.0.0.1"),
    ("master_port", 29500),
    ("rdzv_backend", "static"),
    ("rdzv_endpoint", ""),
    ("rdzv_conf", ""),
    ("sort_ip", False),
    ("start_port", 6070),
    ("join_timeout", 600.0),
    ("network_interface", None),
    ("tls_cert", None),
    ("tls_key", None),
    ("tls_ca", None),
]
PADDLE = """master legacy rank log_level log_overwrite sort_ip enable_gpu_log nnodes nproc_per_node log_dir run_mode job_id
devices gpus npus xpus host ips start_port auto_parallel_config auto_cluster_config auto_tuner_json servers trainers
trainer_num server_num gloo_port with_gloo max_restart elastic_level elastic_timeout
backend selected_gpus selected_xpus cluster_topo_path rank_mapping_path enable_auto_mapping workers coordinators
heter_workers heter_devices worker_num coordinator_num heter_worker_num http_port elastic_server elastic_pre_hook np scale
force""".split()
TORCH = """nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf standalone max-restarts monitor-interval
start-method event-log-handler role module no-python run-path log-dir redirects tee local-ranks-filter
duplicate-stdout-filters duplicate-stderr-filters node-rank master-addr master-port local-addr logs-specs numa-binding
signals-to-handle shutdown-timeout virtual-local-rank help use-env""".split()


@pytest.mark.parametrize(("name", "default"), DEFAULTS, ids=[name for name, _ in DEFAULTS])
def test_every_default_is_as_asked_for(name, default, tmp_path):
    assert gather({}, {}, str(tmp_path))[name] == default


@pytest.mark.parametrize("level", ["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "NOTSET", "info", "Debug"])
def test_every_log_level_in_any_case(level):
    assert parse(["--log_level", level, "x.py"]).given["log_level"].value == level.upper()


@pytest.mark.parametrize("name", [*PADDLE, *TORCH])
def test_every_flag_of_both_old_launchers_has_a_row(name):
    dashed = name.replace("_", "-")
    assert dashed in BY_NAME or dashed in ALIAS_OF


@pytest.mark.parametrize("short", ["-m", "-r", "-t", "-h"])
def test_every_short_flag_has_a_row(short):
    assert [flag for flag in FLAGS if flag.short == short]


def test_rows_are_well_formed():
    names = [flag.name for flag in FLAGS] + [alias.name for alias in ALIASES]
    assert len(names) == len(set(names))
    assert all(flag.group in GROUPS and flag.help and "_" not in flag.name for flag in FLAGS)
    assert all(alias.of in BY_NAME for alias in ALIASES)


@pytest.mark.parametrize(
    ("words", "dest", "value"),
    [
        (["--grace", "5"], "grace", 5.0),
        (["--grace", "5s"], "grace", 5.0),
        (["--grace=2m"], "grace", 120.0),
        (["--grace", "1h"], "grace", 3600.0),
        (["--nnodes", "2:4"], "nnodes", (2, 4)),
        (["-r3"], "redirects", 3),
        (["-r", "0:1,12:3"], "redirects", ((0, 1), (12, 3))),
        (["--log_overwrite", "yes"], "log_overwrite", True),
        (["--log_overwrite=off"], "log_overwrite", False),
        (["--log_overwrite"], "log_overwrite", True),
        (["--log-max-size", "10M"], "log_max_size", 10 << 20),
        (["--console", "0,3"], "console", (0, 3)),
        (["--framework", "torch,tf"], "framework", ("torch", "tensorflow")),
        (["--env", "A=1", "--env", "B=x=y"], "env", (("A", "1"), ("B", "x=y"))),
        (["--duplicate-stdout-filters", "a,,b,c"], "duplicate_stdout_filters", ("a,b", "c")),
        (["--port-range", "5000"], "port_range", (5000, 65535)),
        (["--rank", "-1"], "rank", -1),
        (["--standalone"], "standalone", True),
        (["--preempt-signal", "SIGUSR1"], "preempt_signal", "SIGUSR1"),
        (["--preempt-signal", "usr1"], "preempt_signal", "SIGUSR1"),
    ],
)
def test_values_are_read(words, dest, value):
    line = parse([*words, "train.py", "--own"])

    assert line.given[dest].value == value
    assert (line.script, line.args) == ("train.py", ("--own",))


def test_two_dashes_end_the_flags():
    line = parse(["--grace", "5", "--", "--odd.py", "x"])

    assert (line.script, line.args) == ("--odd.py", ("x",))
    assert line.common == ("--grace", "5", "--", "--odd.py", "x")


@pytest.mark.parametrize(
    ("words", "args"),
    [
        (["-m", "pkg.train", "--", "--depth=26"], ("--depth=26",)),
        (["train.py", "--", "a", "--", "--b"], ("a", "--", "--b")),
        (["train.py", "--", "--", "x"], ("--", "x")),
        (["--", "train.py", "--", "x"], ("x",)),
        (["train.py", "--"], ()),
        (["train.py", "a", "--", "--b"], ("a", "--", "--b")),
    ],
)
def test_two_dashes_directly_behind_the_script_are_dropped_as_by_torchrun(words, args):
    assert parse(words).args == args


@pytest.mark.parametrize(
    "command",
    [
        "--devices=0,1,2,3 train.py --lr=0.01",
        "--gpus 0,1,2,3,4,5,6,7 train.py --batch_size=64",
        "--gpus=0 train.py",
        "--nproc-per-node=8 train.py --arg1 --arg2",
        "--nproc-per-node=8 --nnodes=2 --node-rank=0 --master-addr=192.168.1.1 --master-port=1234 train.py",
        "--devices=0,1,2,3 --master=192.168.0.16:8090 --nnodes=2 train.py --lr=0.01",
        "--server_num=2 --trainer_num=4 train.py --lr=0.01",
        "--master etcd://10.0.0.1:2379 --nnodes 2:4 train.py",
        "--servers=192.168.0.16:6170 --workers=192.168.0.16:6171 --heter_workers=192.168.0.16:6172 train.py",
    ],
)
def test_command_lines_of_the_old_documents_parse(command):
    assert parse(command.split()).script == "train.py"


def test_what_a_parent_gave_and_what_has_no_name_is_not_handed_on():
    environ = {"": "C:=x", "FLOTA_GIVEN": "RANK,WORLD_SIZE", "RANK": "3", "HOME": "/h"}

    assert without_parents_variables(environ) == {"HOME": "/h"}


def test_a_value_with_a_zero_byte_is_refused():
    with pytest.raises(BadValue):
        parse(["--env", "A=b\0c", "x.py"])


@pytest.mark.parametrize(
    ("word", "size"),
    [("64G", 64 << 30), ("64GB", 64 << 30), ("64GiB", 64 << 30), ("64gb", 64 << 30), ("1T", 1 << 40), ("4096", 4096)],
)
def test_sizes_may_have_a_unit(word, size):
    assert convert("--snapshot_memory", "size", word) == size


@pytest.mark.parametrize("word", ["", "G", "GB", "64B", "64GG", "64BG", "64Gi", "64iB", "64 GB", "6.5G", "1000", "-1G"])
def test_an_unknown_size_is_refused_with_the_forms_that_are_known(word):
    with pytest.raises(BadValue, match="expected a size of 1K or more, in K, M, G or T") as caught:
        convert("--snapshot_memory", "size", word)

    assert caught.value.hint == "for example --snapshot_memory 64G, or --snapshot_memory 64GB"


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        *[(kind, "\u0663") for kind in ("int", "count", "workers", "duration", "port", "nodes", "positive", "threads")],
        *[(kind, "\u0663") for kind in ("factor", "limit", "hang", "ports", "list", "ranks", "reasons")],
        *[("size", "\u0663M"), ("streams", "0:\u0663"), ("roles", "trainer=\u0663"), ("faults", "kill=\u0663s")],
        *[("faults", "kill=3s,seed=\u0663"), ("nodes", "1:\u0663"), ("int", "1_0"), ("int", " 1"), ("int", "-\u0663")],
    ],
)
def test_digits_of_other_scripts_are_not_numbers(kind, word):
    with pytest.raises(BadValue):
        convert("--flag", kind, word)


def test_a_whole_number_may_be_negative():
    assert [convert("--rank", "int", word) for word in ("-1", "0", "12")] == [-1, 0, 12]
