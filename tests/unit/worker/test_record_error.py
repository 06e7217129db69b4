"""flota.record: what it writes, when, and that it hides nothing."""

from __future__ import annotations

import json
import sys

import pytest

import flota
from flota.errors.worker import NothingToRecord
from flota.spawning.worker_process import read_all, write_error
from flota.worker import record_error


@pytest.fixture
def error_file(tmp_path, monkeypatch):
    path = tmp_path / "log" / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    return path


@pytest.fixture
def hook(monkeypatch):
    """What would be shown on the screen."""
    shown = []
    monkeypatch.setattr(sys, "excepthook", lambda *what: shown.append(what))
    yield shown
    record_error._previous.clear()


@flota.record
def divide(one, other=0):
    """Divides."""
    return one / other


def test_a_recorded_function_is_unchanged():
    assert divide(6, other=3) == 2
    assert (divide.__name__, divide.__doc__) == ("divide", "Divides.")


def test_what_a_function_raises_is_written_and_raised(error_file):
    with pytest.raises(ZeroDivisionError):
        divide(1)

    told = json.loads(error_file.read_text())["message"]
    assert told["message"] == "ZeroDivisionError: division by zero"
    assert set(told["extraInfo"]) == {"py_callstack", "timestamp"}
    assert told["extraInfo"]["timestamp"].isdecimal()
    first, second, *_, last = told["extraInfo"]["py_callstack"].splitlines()
    assert first == "Traceback (most recent call last):"
    assert "in divide" in second
    assert last == "ZeroDivisionError: division by zero"
    assert list(error_file.parent.iterdir()) == [error_file]


@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt()])
def test_endings_that_are_no_failures_are_not_written(error_file, ending):
    @flota.record
    def main():
        raise ending

    with pytest.raises(type(ending)):
        main()

    assert not error_file.exists()


def test_without_a_launcher_nothing_is_written(monkeypatch, tmp_path):
    for name in ("TORCHELASTIC_ERROR_FILE", "FLOTA_LOG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ZeroDivisionError):
        divide(1)

    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_does_not_hide_the_error(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path))

    with pytest.raises(ZeroDivisionError):
        divide(1)

    assert capsys.readouterr().err == f"flota.record: cannot write {tmp_path}: Is a directory\n"


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("of the user's own class")


@pytest.mark.parametrize("whole", [False, True])
def test_an_error_without_a_text_is_reported_by_its_type(error_file, hook, whole):
    error = Unspeakable()

    @flota.record
    def main():
        raise error

    if whole:
        flota.record()
        sys.excepthook(Unspeakable, error, None)
        assert hook == [(Unspeakable, error, None)]
    else:
        with pytest.raises(Unspeakable):
            main()

    assert json.loads(error_file.read_text())["message"]["message"] == "Unspeakable"


def test_nor_does_a_worker_of_spawn_fail_otherwise_for_that(tmp_path):
    with open(tmp_path / "result", "w+b") as file:
        assert write_error(file.fileno(), Unspeakable()) == 1

        assert read_all(file.fileno()).startswith(b"EUnspeakable\n")


def test_a_whole_script_is_recorded_and_its_error_shown_as_before(error_file, hook):
    flota.record()
    flota.record()
    error = ValueError("torn")

    sys.excepthook(ValueError, error, None)

    assert json.loads(error_file.read_text())["message"]["message"] == "ValueError: torn"
    assert hook == [(ValueError, error, None)]


def test_ctrl_c_in_a_whole_script_is_shown_and_not_written(error_file, hook):
    flota.record()

    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)

    assert not error_file.exists()
    assert len(hook) == 1


def test_with_parentheses_it_is_also_a_decorator(error_file, hook):
    @flota.record()
    def main():
        raise ValueError("torn")

    with pytest.raises(ValueError, match="torn"):
        main()

    assert error_file.exists()


def test_something_else_than_a_function_is_refused():
    with pytest.raises(NothingToRecord, match=r"takes a function, not `'train'`\nhint: write @flota\.record before"):
        flota.record("train")
