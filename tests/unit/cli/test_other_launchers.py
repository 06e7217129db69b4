"""Flags that flota does not have: other launchers' ones have a fitting hint, and only misspelled ones have a guess."""

from __future__ import annotations

import pytest

from flota.cli.flags import find_flag
from flota.cli.ipu import ROWS as IPU_ROWS
from flota.cli.other_launchers import HINTS
from flota.cli.parse import parse
from flota.errors import UnknownFlag


def hint(word, rows=None):
    with pytest.raises(UnknownFlag) as raised:
        parse([word, "2", "train.py"], *([rows] if rows else []))
    return raised.value.hint


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        ("-np -n -n4 -np=4 --nprocs --num-gpus --num_gpus=2 --num_processes", "--nproc_per_node N"),
        ("--num_machines --num_nodes --nodes", "--nnodes N"),
        ("--min-np --max-np", "--nnodes MIN:MAX"),
        ("--machine_rank", "--rank N"),
        ("--main_process_ip --main_process_port", "--master HOST:PORT"),
        ("-H", "--hosts a,b:8"),
        ("--machinefile", "--hostfile FILE"),
        ("--gpu_ids --include", "--devices"),
        ("--config_file", "flota.toml"),
        ("--world_size --multi_gpu --allow-run-as-root", "leave it out"),
    ],
)
def test_flags_of_other_launchers_have_their_own_hint(words, flag):
    for word in words.split():
        assert flag in hint(word), word


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("--nproc-per-nodee", "--nproc-per-node"),
        ("-nproc_per_node", "--nproc-per-node"),
        ("--ndoes", "--nnodes"),
        ("--logdir", "--log-dir"),
        ("--max_restrat", "--max-restart"),
        ("--dvices", "--devices"),
    ],
)
def test_a_misspelled_flag_is_guessed(word, meant):
    assert hint(word) == f"did you mean {meant}?"


@pytest.mark.parametrize("word", "--epochs --lr --batch_size --seed --output_dir --name --config --slots -x -v".split())
def test_no_guess_is_made_for_flags_of_scripts(word):
    assert hint(word).startswith("the script's flags go after the script")


def test_no_flag_of_flota_is_in_the_table():
    assert not [name for name in HINTS if name.startswith("--") and find_flag(name[2:])]
    assert all("_" not in name for name in HINTS)


def test_flags_after_ipu_are_not_looked_up_in_the_table():
    assert hint("--hostss", IPU_ROWS) == "did you mean --hosts?"
    assert "did you mean" not in hint("--num-gpus", IPU_ROWS) and "nproc" not in hint("--num-gpus", IPU_ROWS)
