"""YAML as people write it, that reads back as what was written."""

from __future__ import annotations

import pytest
import yaml

from flota.engines.yaml_text import write_yaml


def test_documents_are_written_in_block_style():
    documents = [
        {"kind": "Job", "spec": {"size": 4, "on": True, "none": {}, "args": ["--lr", "0.1", {"name": "a", "b": [1]}]}},
        {"data": {"train.py": "import os\n\nprint(1)\n"}},
    ]

    assert (
        write_yaml(documents)
        == """\
kind: Job
spec:
  size: 4
  "on": true
  none: {}
  args:
  - --lr
  - "0.1"
  - name: a
    b:
    - 1
---
data:
  train.py: |
    import os

    print(1)
"""
    )


@pytest.mark.parametrize(
    "text",
    [
        *("train-0.train:29400", "nvidia.com/gpu", "64Gi", "500m", "--lr", "-m", "./run", "/dev/shm", "python:3.12"),
        "registry.example:5000/team/image@sha256:0123",
    ],
)
def test_common_words_need_no_quotes(text):
    assert write_yaml([{"a": text}]) == f"a: {text}\n"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "-",
            "--",
            "---",
            "...",
            ".",
            "~",
            "=",
            "<<",
            "a: b",
            "a:",
            "a #b",
            "#a",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
        ),
        *(
            "yes",
            "No",
            "y",
            "null",
            "True",
            "1",
            "-1",
            "0x1f",
            "1e3",
            ".5",
            ".inf",
            "-.Inf",
            "1_000",
            "12:30:45",
            "0o7",
        ),
        *("2026-11-18", "[a]", "{a}", "a\tb", "\ta", "'a'", '"a"', "a\n", "\n", "\n\n", "a\n\n", "a\n b\n", " a\nb"),
        *(
            "a\r\nb\n",
            "a \nb\n",
            "\tx\ny\n",
            "a\n\tb\n",
            "ünïcode\nß\n",
            "a\x00b\n",
            "a\x85b\nc",
            "\ufeffa\nb",
            "a,b",
            "a, b",
        ),
        *("metadata.annotations['x/y']", "$(X)", "$$(X)", "${rank}", "|", ">", "? a", "?", "- a", "-\n", "x: |\n  y\n"),
        *(
            "1.5",
            "+1",
            "+a",
            "-a b",
            "😀",
            "\U000e0001",
            "1M",
            "0",
            "012",
            "1.",
            "-0",
            "_1",
            "- -",
            "a\x7fb",
            "\u2028\nx",
            "nan",
            ".nan",
        ),
    ],
)
def test_every_text_reads_back_as_it_was(text):
    value = {"a": text, "b": [text, {"c": text}], "k": {text: text}}

    assert yaml.safe_load(write_yaml([value])) == value
