from __future__ import annotations

import pytest

from flota.cli.command_options import read_command, read_options
from flota.errors import MissingValue, TooManyWords, UnknownFlag


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


USAGE = "usage: flota show RANK\n\nShow a rank.\n"


def test_the_usage_is_printed_on_request(capsys):
    assert read_command(["3", "-h", "4"], USAGE, ()) is None
    assert capsys.readouterr().out == USAGE


def test_a_word_too_many_is_an_error_with_the_usage():
    with pytest.raises(TooManyWords, match="`4`") as caught:
        read_command(["3", "4"], USAGE, (), most_words=1)

    assert caught.value.hint == "usage: flota show RANK"


@pytest.mark.parametrize(("words", "json"), [(["--json"], True), ([], False)])
def test_json_may_be_asked_for(words, json):
    assert read_command(words, USAGE, (), ("--json",)).json is json
