"""The batch script of a Slurm job, and how Slurm's answers are read."""

from __future__ import annotations

import subprocess

import pytest

from flota.engines import slurm
from flota.engines.slurm import OPTIONS, plan, slurm_time
from flota.errors import BadValue, Contradiction
from flota.errors.engines import ToolFailed
from tests.unit.engines import JOB


def script(job=JOB, **chosen):
    defaults = {option.name.replace("-", "_"): option.default for option in OPTIONS}
    return plan(job, {**defaults, "kill_wait": 30.0, **chosen})


def options_of(text):
    return [line.removeprefix("#SBATCH --") for line in text.splitlines() if line.startswith("#SBATCH")]


def test_the_script_asks_for_one_task_per_node():
    planned = script(partition="long", time="2h", gpus_per_node="8", sbatch=(("qos", "high"), ("exclusive", "")))

    assert planned.path == "/home/alice/my work/log/train.sbatch"
    assert options_of(planned.text) == [
        "job-name=train",
        "nodes=4",
        "ntasks-per-node=1",
        "output=/home/alice/my work/log/slurm-%j.out",
        "open-mode=append",
        "time=2:00:00",
        "partition=long",
        "gpus-per-node=8",
        "qos=high",
        "exclusive",
    ]


def test_the_script_is_valid_and_its_words_are_quoted():
    text = script().text

    subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    assert "cd '/home/alice/my work' || exit" in text
    assert """-m flota --nnodes=4 --grace=28s --nproc_per_node=8 train.py --name 'it'"'"'s'""" in text


def test_the_token_is_not_in_the_script():
    planned = script()

    assert "secret-token" not in planned.text + repr(planned)
    assert planned.token == "secret-token"


def test_the_grace_is_shorter_than_slurms_unless_it_is_given():
    assert "--grace=8s" in script(kill_wait=10.0).text
    assert "--grace" not in script(JOB._replace(grace=60.0)).text


def test_an_elastic_job_survives_the_loss_of_a_node():
    text = script(JOB._replace(least=2)).text

    assert {"nodes=2-4", "no-kill"} <= set(options_of(text))
    assert "--no-kill \\" in text
    assert "--nnodes=2:4" in text


def test_ranks_are_asked_to_save_before_the_time_limit():
    text = script(JOB._replace(stop_before=300.0)).text

    assert "signal=USR1@300" in options_of(text)
    assert "--preempt_signal=SIGUSR1" in text


def test_jobs_of_an_array_have_outputs_of_their_own():
    assert "output=/home/alice/my work/log/slurm-%A_%a.out" in options_of(script(array="0-2").text)


def test_a_directory_per_run_does_not_name_the_script():
    assert script(JOB._replace(log_dir="runs/{job_id}/{time}")).path == "/home/alice/my work/runs/train.sbatch"


@pytest.mark.parametrize("key", ["nodes", "partition", "time", "output"])
def test_what_flota_sets_cannot_be_given_twice(key):
    with pytest.raises(Contradiction, match=key):
        script(sbatch=((key, "x"),))


def test_a_value_cannot_add_lines_to_the_script():
    with pytest.raises(BadValue):
        script(partition="a\n#SBATCH --uid=0")


@pytest.mark.parametrize(
    ("word", "time"),
    [
        ("90m", "1:30:00"),
        ("2h", "2:00:00"),
        ("1d", "24:00:00"),
        ("45s", "0:00:45"),
        ("1-12:00:00", "1-12:00:00"),
        ("90", "90"),
    ],
)
def test_times_with_units_are_translated_and_slurms_own_are_kept(word, time):
    assert slurm_time(word) == time


def test_a_time_that_is_neither_is_an_error():
    with pytest.raises(BadValue):
        slurm_time("xh")


@pytest.mark.parametrize(
    ("said", "state", "code"),
    [
        (["JobState=RUNNING ExitCode=0:0"], "RUNNING", 0),
        (["JobState=COMPLETED ExitCode=0:0"], "COMPLETED", 0),
        (["JobState=FAILED ExitCode=7:0"], "FAILED", 7),
        (["JobState=CANCELLED ExitCode=0:15"], "CANCELLED", 143),
        (["JobState=CANCELLED ExitCode=0:0"], "CANCELLED", 1),  # before it began
        (["JobState=TIMEOUT ExitCode=0:0"], "TIMEOUT", 1),
        (["JobState=COMPLETED ExitCode=0:0", "JobState=FAILED ExitCode=3:0"], "FAILED", 3),  # of an array
        (["JobState=PENDING ExitCode=0:0", "JobState=FAILED ExitCode=3:0"], "PENDING", 3),
        ("slurm_load_jobs error: Invalid job id specified", "UNKNOWN", 1),
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", "UNREACHABLE", 0),
    ],
)
def test_the_state_of_a_job(monkeypatch, said, state, code):
    def run_tool(_):
        if isinstance(said, str):
            raise ToolFailed("scontrol", said)
        return "".join(f"JobId=7 {row}\n" for row in said)

    monkeypatch.setattr(slurm, "run_tool", run_tool)

    assert slurm.job_state("7") == (state, code)
    assert (state in slurm.RUNS) == (state in ("RUNNING", "PENDING", "UNREACHABLE"))


def test_spares_are_allocated_and_the_job_survives_the_loss_of_a_node():
    fixed = script(JOB._replace(spares=1, words=("--spares", "1", "train.py"))).text

    assert "nodes=5" in options_of(fixed)
    assert "no-kill" in options_of(fixed)
    assert "--no-kill" in fixed
    assert "--nnodes=4 --grace=28s --spares 1" in fixed
    assert "nodes=2-5" in options_of(script(JOB._replace(least=2, spares=1)).text)
