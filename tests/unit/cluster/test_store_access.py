from __future__ import annotations

import pytest

from flota.cluster.store_access import is_flotas


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["/usr/bin/python3", "/opt/env/bin/flota", "train.py"], True),
        (["python", "-m", "flota", "--nnodes", "2"], True),
        (["python", "-u", "-m", "flota.torch_launch", "train.py"], True),
        (["/opt/env/bin/fleetrun"], True),
        (["/home/ann/flota/.venv/bin/python", "serve.py"], False),
        (["python", "-m", "http.server", "-d", "/home/ann/flota"], False),
        (["nginx"], False),
    ],
)
def test_a_process_is_flotas_by_its_program(words: list[str], *, expected: bool) -> None:
    assert is_flotas(b"\0".join(word.encode() for word in words) + b"\0") is expected
