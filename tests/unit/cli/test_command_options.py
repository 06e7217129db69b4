from __future__ import annotations

import pytest

from flota.cli.command_options import read_options
from flota.errors import MissingValue, UnknownFlag


def test_options_are_found_between_words():
    options = read_options(["3", "--job", "a", "--json", "--log_dir=b=c", "x"], ("--job", "--log-dir"), ("--json",))

    assert options.given == {"--job": "a", "--log-dir": "b=c"}
    assert (options.switches, options.words) == ({"--json"}, ("3", "x"))


@pytest.mark.parametrize("words", [["--nonsense"], ["--json=1"], ["-x"]])
def test_an_unknown_option_is_an_error(words):
    with pytest.raises(UnknownFlag, match=words[0].partition("=")[0]):
        read_options(words, ("--job",), ("--json",))


@pytest.mark.parametrize("words", [["--job"], ["--job="], ["--job", ""]])
def test_an_option_without_its_value_is_an_error(words):
    with pytest.raises(MissingValue, match="--job"):
        read_options(words, ("--job",), ())
