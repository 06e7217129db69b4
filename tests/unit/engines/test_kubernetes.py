"""What is sent to the pods, and what `--dry_run` prints."""

from __future__ import annotations

import pytest
import yaml

from flota.engines.kubernetes import OPTIONS, observe, plan
from flota.errors import MissingScript, UnreadableFile
from flota.errors.engines import FileOutside, NoImage
from tests.unit.engines.test_kubernetes_manifest import JOB


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "a.yaml").write_text("a: 1\n")
    return tmp_path


def planned(directory, target="train.py", kind="script", **chosen):
    job = JOB._replace(directory=str(directory), target=target, kind=kind)
    defaults = {option.name.replace("-", "_"): option.default for option in OPTIONS}
    return plan(job, observe(job, {**defaults, "image": "python:3.12", **chosen}))


def files_of(manifest):
    found = [one for one in yaml.safe_load_all(manifest.text) if one["kind"] == "ConfigMap"]
    return found[0]["data"] if found else {}


def test_the_printed_manifest_is_what_is_created_but_for_the_token(directory):
    manifest = planned(directory)

    *parts, main = yaml.safe_load_all(manifest.text)
    assert main == manifest.main
    assert [one["kind"] for one in parts] == ["Secret", "ConfigMap", "Service"]
    assert parts[1:] == manifest.parts[1:]
    assert manifest.parts[0]["stringData"] == {"token": "secret-token"}
    assert "secret-token" not in manifest.text + repr(manifest)


def test_flota_refuses_the_placeholder_as_a_token(directory):
    secret = next(yaml.safe_load_all(planned(directory).text))

    assert " " in secret["stringData"]["token"]


def test_the_script_and_other_files_are_sent(directory):
    assert files_of(planned(directory, "./train.py", file=("conf/a.yaml", str(directory / "train.py")))) == {
        "train.py": "print(1)\n",
        "conf.a.yaml": "a: 1\n",
    }


@pytest.mark.parametrize(
    ("target", "kind"), [("/app/train.py", "script"), ("package.train", "module"), ("bash", "program")]
)
def test_what_is_in_the_image_is_not_sent(directory, target, kind):
    assert files_of(planned(directory, target, kind)) == {}


def test_a_program_below_the_directory_is_sent(directory):
    (directory / "run").write_text("#!/bin/sh\n")

    assert files_of(planned(directory, "./run", "program")) == {"run": "#!/bin/sh\n"}


@pytest.mark.parametrize("path", ["../train.py", "conf/../../train.py"])
def test_a_script_outside_the_directory_is_an_error(directory, path):
    with pytest.raises(FileOutside, match="below the current directory"):
        planned(directory / "conf", path)


def test_a_file_outside_the_directory_is_an_error(directory):
    with pytest.raises(FileOutside):
        planned(directory, file=("/etc/hostname",))


def test_files_that_cannot_be_read_are_errors(directory):
    with pytest.raises(MissingScript):
        planned(directory, "trian.py")
    with pytest.raises(UnreadableFile, match="--file"):
        planned(directory, file=("conf",))


def test_an_image_is_required(directory):
    with pytest.raises(NoImage):
        planned(directory, image=None)


def test_the_context_and_the_namespace_are_kubectls(directory):
    assert planned(directory, context="lab", namespace="ml").where == ("--context=lab", "--namespace=ml")
