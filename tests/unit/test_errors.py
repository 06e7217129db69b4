from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from flota import errors

FILES = {path.stem for path in Path(errors.__file__).parent.glob("*.py")} - {"__init__"}


def test_an_error_in_the_file_of_a_feature_is_a_name_of_the_package():
    from flota.errors.rendezvous import BadToken

    assert errors.BadToken is BadToken


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'NoSuchError'"):
        errors.NoSuchError  # noqa: B018


def test_every_file_is_searched_except_those_for_programs_and_scripts():
    assert {*errors.FEATURES, "snapshots", "spawning", "worker"} == FILES


def test_an_error_that_was_imported_late_can_be_pickled():
    error = errors.OnlyWith("--json", "--dry-run")

    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again)) == (errors.OnlyWith, str(error))
