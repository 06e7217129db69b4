from __future__ import annotations

import errno
import os
import socket
import time
from types import SimpleNamespace

import pytest

from flota.host.channel import MODULE_LIST_SIZE, Channel
from flota.host.loop import Loop
from flota.host.process_start import ProcessSpec
from flota.job.roles import Role
from flota.job.spec import Command, JobSpec, LogSpec, RestartPolicy
from flota.standby import parked_main
from flota.standby.first_choice import choose, waits_at_first
from flota.standby.modules_to_import import ModulesToImport, is_installed, module_file, script_imports
from flota.standby.parked_protocol import pack, receive, send, unpack
from flota.standby.record_imports import ImportRecorder
from flota.standby.replacement import PAUSES, STEADY, Replacements
from flota.standby.strategy import (
    COLD,
    FORK,
    POOL,
    ImportOutcome,
    common_variables,
    first_never_forked,
    initial_strategy,
    varying_variables,
)
from flota.standby.warm_start import WarmStart
from flota.standby.warm_text import imports_in_words, loss_in_words, next_restart_in_words

SCRIPT = Command("script", "train.py", (), "/bin/python")


@pytest.mark.parametrize(
    ("commands", "wrappers", "expected"),
    [
        ([SCRIPT], [], (FORK, "")),
        ([SCRIPT, SCRIPT._replace(args=("--ps",))], [], (FORK, "")),
        ([SCRIPT, SCRIPT._replace(target="serve.py")], [], (POOL, "the roles run different scripts")),
        ([SCRIPT, SCRIPT._replace(kind="program", target="ps")], [], (COLD, "`ps` is not a Python script")),
        ([SCRIPT], ["/bin/python"], (COLD, "`/bin/python` is a script, not an interpreter")),
    ],
)
def test_the_strategy_before_anything_is_imported(commands, wrappers, expected):
    assert initial_strategy(commands, wrappers) == expected


def test_without_memory_for_parked_interpreters_the_start_is_cold(monkeypatch):
    def no_room(*_words, **_options):
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("flota.standby.warm_start.StandbyPool", no_room)
    roles = (Role("trainer", 1), Role("reader", 1, command=SCRIPT._replace(target="read.py")))
    warm = WarmStart(
        JobSpec(SCRIPT, 2, LogSpec("/log"), roles=roles, warm=("jax",), restarts=RestartPolicy(enabled=True))
    )
    said = []
    warm.attach(Loop(), lambda _level, words: said.append(words))
    channel = Channel(2)
    warm.begin_round(SimpleNamespace(is_pending=False), channel, [])
    warm.on_time(time.monotonic() + 2)
    channel.close()

    assert warm.start([]) is None
    assert said[-1] == "warm: cold start: cannot start interpreters: Resource temporarily unavailable"


@pytest.mark.parametrize(
    ("outcome", "unforkable"),
    [
        (ImportOutcome(), ""),
        (ImportOutcome(failed="cannot import `x`"), "cannot import `x`"),
        (ImportOutcome(never_forked="jax", threads=9), "jax is never forked"),
        (ImportOutcome(threads=2), "the imports left 2 threads running"),
        (ImportOutcome(opened="/dev/nvidia0"), "an import opened `/dev/nvidia0`"),
        (ImportOutcome(changed_variable="RANK"), "an import read RANK, which differs between workers"),
        (ImportOutcome(children=True), "an import started a process"),
        (
            ImportOutcome(random="a module has a random generator of its own"),
            "a module has a random generator of its own",
        ),
        (ImportOutcome(changed_file="/x.py"), "`/x.py` has changed since it was imported"),
    ],
)
def test_when_a_fork_is_not_safe(outcome, unforkable):
    assert outcome.unforkable == unforkable


@pytest.mark.parametrize(
    ("named", "script", "workers", "strategy"),
    [
        (("auto",), "import os, paddle", 2, POOL),
        (("auto",), "import os, paddle", 1, FORK),
        (("auto",), "import jax.numpy", 1, POOL),
        (("auto",), "from lightning.fabric import Fabric", 2, POOL),
        (("auto",), "import torch", 8, FORK),
        (("torch",), "import jax", 2, FORK),
        (("torch", "jax"), "", 2, POOL),
    ],
)
def test_modules_known_to_be_unforkable_are_known_before_any_import(tmp_path, named, script, workers, strategy):
    (tmp_path / "train.py").write_text(script)
    command = SCRIPT._replace(target=str(tmp_path / "train.py"))

    assert WarmStart(JobSpec(command, workers, LogSpec("/log"), warm=named)).strategy == strategy


def test_ranks_vary_while_they_are_unknown():
    assert varying_variables([{"A": "1", "RANK": "0"}, {"A": "1", "RANK": "1", "B": "2"}]) == ["B", "RANK"]
    assert varying_variables([{"A": "1", "RANK": "0"}]) == []
    assert varying_variables([{"A": "1"}]) == ["LOCAL_RANK", "PADDLE_TRAINER_ID", "RANK"]


def test_which_modules_are_never_forked():
    assert first_never_forked(["os", "jax.numpy"]) == "jax"
    assert first_never_forked(["jaxtyping", "torch"]) == ""


def test_one_import_is_enough_for_what_is_the_same_for_all():
    environments = [{"A": "1", "RANK": "0", "ONLY": "x"}, {"A": "1", "RANK": "1"}]

    assert common_variables(environments) == {"A": "1"}


def test_the_imports_of_a_script_are_those_made_when_it_runs(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, torch.nn as nn\nfrom numpy import array\n"
        "try:\n    import tried\nexcept ImportError:\n    import other\n"
        "if __name__ == '__main__':\n    with open('x'):\n        import deep\n"
        "def later():\n    import late\nclass C:\n    import inner\n"
    )

    found, _ = script_imports(str(script), bool)

    assert found == ["os", "torch.nn", "numpy"]
    script.write_text("this is no Python")
    assert script_imports(str(script), bool) == ([], False)


@pytest.mark.parametrize(
    ("line", "is_end"),
    [
        ("x = 1", False),
        ("os.environ['A'] = '1'", True),
        ("os.environ.setdefault('A', '1')", True),
        ("rank = int(os.environ['RANK']) + int(os.environ.get('X', 0))", False),
        ("here = os.path.join('a', 'b')", False),
        ("os.environ['A'] = value()", True),
        ("os.environ.update(A='1')", True),
        ("del os.environ['A']", True),
        ("sys.path.insert(0, 'vendor')", True),
        ("if x:\n    sys.path += ['vendor']", True),
        ("from os import environ\nenviron['A'] = '1'", True),
        ("from os import environ\nenviron.update(A='1')", True),
        ("def setup():\n    os.environ['A'] = '1'\nsetup()", True),
        ("def setup():\n    os.environ['A'] = '1'\ndef all():\n    all(); setup()\nall()", True),
        ("def setup():\n    os.environ['A'] = '1'", True),
        ("def rank():\n    return os.environ['RANK']\nrank()", False),
        ("import mine", True),
        ("from mine import deep", True),
        ("from . import mine", True),
        ("try:\n    import mine\nexcept ImportError:\n    pass", True),
        ("def later():\n    import mine\nlater()", True),
        ("try:\n    import torch\nexcept ImportError:\n    pass", False),
    ],
)
def test_what_a_script_does_before_an_import(tmp_path, line, is_end):
    script = tmp_path / "train.py"
    script.write_text(f"import os, sys\n{line}\nimport torch\n")

    found, changes_imports = script_imports(str(script), lambda name: name in ("os", "sys", "torch"))

    assert ("torch" in found) is not is_end
    assert changes_imports is (is_end and "mine" not in line)


def test_what_a_script_does_after_its_imports_says_nothing_of_those(tmp_path):
    (tmp_path / "train.py").write_text("import torch\nif x:\n    import tried\nos.chdir('/')\nif y:\n    import late")

    found, changes_imports = script_imports(str(tmp_path / "train.py"), bool)

    assert found == ["torch"]
    assert changes_imports


def test_auto_means_installed_modules_and_what_frameworks_import_late(tmp_path):
    (tmp_path / "train.py").write_text("import sys, json, hypothesis, decimal, fractions")
    (tmp_path / "mine.py").touch()
    (tmp_path / "decimal.py").touch()  # the script would find this one
    order = {
        "modules": ["auto"],
        "script": str(tmp_path / "train.py"),
        "is_module": False,
        "learnt": ["fractions", "no", "mine"],
    }

    assert ModulesToImport(order).required == ["sys", "json", "hypothesis"]
    assert ModulesToImport(order).optional == ["fractions"]
    assert ModulesToImport({**order, "modules": ["torch", "mine"]}).required == ["torch", "mine"]
    assert "torch._dynamo" in ModulesToImport({**order, "modules": ["torch"]}).optional


@pytest.mark.parametrize(
    ("script", "own", "learnt"),
    [
        ("", "import os\nrank = os.environ['RANK']", ["fractions"]),
        ("", "import os\nos.environ['A'] = '1'", []),
        ("", "import os\ndef setup():\n    os.environ['A'] = '1'\nsetup()", []),
        ("", "import os\ndef setup():\n    os.environ['A'] = '1'", []),
        ("", "from dotenv import load_dotenv\nload_dotenv()", []),
        ("import os, mine\nos.environ['A'] = '1'", "", []),
        ("def setup():\n    sys.path.append('x')", "", []),
    ],
)
def test_nothing_is_learnt_where_the_users_code_changes_imports(tmp_path, script, own, learnt):
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text(own)
    request = {"modules": ["auto"], "script": str(tmp_path / "train.py"), "is_module": False}

    assert ModulesToImport({**request, "learnt": ["package", "fractions"]}).optional == learnt


def test_a_module_is_found_without_running_the_packages_around_it(tmp_path):
    (tmp_path / "package" / "inner").mkdir(parents=True)
    (tmp_path / "package" / "train.py").touch()
    (tmp_path / "package" / "inner" / "__main__.py").touch()

    assert module_file("package.train", "__main__.py", ["/nowhere", str(tmp_path)]) == str(
        tmp_path / "package" / "train.py"
    )
    assert module_file("package.inner", "__main__.py", [str(tmp_path)]) == str(
        tmp_path / "package" / "inner" / "__main__.py"
    )
    assert module_file("absent", "__main__.py", [str(tmp_path)]) == ""


def test_what_is_not_installed_is_not_imported_unasked(tmp_path):
    assert is_installed("json", str(tmp_path))
    assert not is_installed("not_there_at_all", str(tmp_path))
    assert not is_installed("tests", "/nowhere")
    assert not is_installed("__main__", str(tmp_path))


@pytest.mark.parametrize(
    ("busy", "hurried", "slept"), [(True, False, [0.1, 0.08]), (False, False, []), (True, True, [])]
)
def test_imports_that_can_wait_let_others_work(monkeypatch, busy, hurried, slept):
    naps: list[float] = []
    used = iter([0.0, 0.02])
    clock = SimpleNamespace(process_time=used.__next__, monotonic=lambda: sum(naps), sleep=naps.append)
    monkeypatch.setattr(parked_main, "time", clock)
    monkeypatch.setattr(parked_main, "is_busy", lambda: busy)

    parked_main.SlowDown(lambda: hurried, 0.1).find_spec("a module")

    assert naps == pytest.approx(slept)


def test_names_of_modules_go_from_a_worker_to_the_node_until_there_is_no_room():
    channel = Channel(3, module_list=True)
    recorder = ImportRecorder(channel.page_path(1).rpartition(":")[0])
    try:
        for name in ("one", "two.three"):
            recorder.find_spec(name, None)

        assert channel.imported_modules() == ["one", "two.three"]
        assert channel.read(2).step == -1

        for number in range(MODULE_LIST_SIZE // 8):
            assert recorder.find_spec(f"m{number:07}") is None
        assert len("\n".join(channel.imported_modules())) > MODULE_LIST_SIZE - 20
    finally:
        channel.close()


def test_workers_and_their_streams_go_through_a_link():
    here, there = socket.socketpair()
    log, end = os.pipe()
    processes = [
        ProcessSpec(("python", "\udcff"), {"A": "\udcff" * 70_000}, "out", end),
        ProcessSpec(("python",), {}, end, None),
    ]
    fds: list[int] = []

    send(here, {"processes": pack(processes, fds)}, fds)
    here.close()

    message, received = receive(there)
    first, second = unpack(message["processes"], received)
    assert (first.argv, first.env, first.stdout) == (processes[0].argv, processes[0].env, "out")
    assert first.stderr == second.stdout and second.stderr is None
    os.write(first.stderr, b"said")
    assert os.read(log, 9) == b"said"
    assert receive(there) is None
    for fd in (log, end, *received):
        os.close(fd)
    there.close()


@pytest.mark.parametrize(
    ("named", "script", "uncertain"),
    [
        (("auto",), "import os, torch.nn\nimport numpy as np", ""),
        (("auto",), "import os, transformers, torch", "transformers"),
        (("auto",), "import mine\nimport transformers", ""),  # auto stops at the user's own modules
        (("auto", "wandb"), "import torch", "wandb"),
        (("torch",), "import transformers", ""),
    ],
)
def test_which_modules_may_turn_out_to_be_unforkable(tmp_path, named, script, uncertain):
    (tmp_path / "mine.py").touch()
    (tmp_path / "train.py").write_text(script)
    spec = JobSpec(SCRIPT._replace(target=str(tmp_path / "train.py")), 2, LogSpec("/log"), warm=named)

    choice = choose(spec)

    assert (choice.strategy, choice.uncertain) == (FORK, uncertain)
    assert waits_at_first(spec, choice) is (not uncertain)


def test_interpreters_are_replaced_after_growing_pauses_until_there_were_too_many():
    replacements = Replacements()

    assert [replacements.pause(1.0) for _ in range(6)] == [*PAUSES, None, None]
    assert replacements.pause(STEADY) == PAUSES[0]
    assert list(PAUSES) == sorted(set(PAUSES))


class LostTemplate:
    """A template that exits before its imports are done."""

    def __init__(self, *_words):
        self.link, other = socket.socketpair()
        other.close()
        self.began, self.ready_at, self.names, self.pid = time.monotonic(), None, [], 0

    def last_line(self):
        return "Killed"

    def close(self):
        self.link.close()


def test_templates_that_exit_again_and_again_are_given_up_with_two_messages(monkeypatch, tmp_path):
    monkeypatch.setattr("flota.standby.warm_start.ForkTemplate", LostTemplate)
    (tmp_path / "train.py").touch()
    command = SCRIPT._replace(target=str(tmp_path / "train.py"))
    restarts = RestartPolicy(enabled=True)
    warm = WarmStart(JobSpec(command, 2, LogSpec("/log"), warm=("torch",), restarts=restarts))
    said, loop = [], Loop()
    warm.attach(loop, lambda _level, words: said.append(words))

    warm.prepare([ProcessSpec(("python",), {}, None, None)])
    for _ in PAUSES:
        loop.turn(0)
        warm.on_time(warm.deadline)
    loop.turn(0)

    assert (warm.strategy, warm.deadline) == (COLD, None)
    assert said == [
        "warm: the parked interpreter exited: Killed; until another one is ready, a restart is cold",
        "warm: parked interpreters exit again and again; all further starts are cold",
    ]


def test_what_users_read_about_the_next_restart():
    assert next_restart_in_words(0.05, 1.93) == "the next restart starts in about 0.1 s (a cold one in 2.0 s)"
    assert next_restart_in_words(None, 3.1) == "the next restart saves 3.1 s of imports"
    assert loss_in_words("", 1.9, is_replaced=True).endswith("a restart takes about 1.9 s longer")
    assert loss_in_words("Killed", 0, is_replaced=False) == "the parked interpreter exited: Killed"
    assert (
        imports_in_words(["os", "torch", "torch.nn", "a", "b", "c"], 1.0)
        == "imported os, torch, a, b and 1 more in 1.0 s"
    )
    assert imports_in_words([], 0.0) == "imported nothing yet in 0.0 s"
