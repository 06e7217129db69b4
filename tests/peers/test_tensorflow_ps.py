"""TensorFlow: ParameterServerStrategy, whose workers and ps serve until somebody ends them."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from .conftest import Peer
from .environments import ROOT
from .test_examples import command_of

pytestmark = pytest.mark.real

RUNS = range(3 if os.environ.get("FLOTA_SOAK") else 1)


@pytest.mark.parametrize("_", RUNS)
def test_the_example_trains_and_ends_when_its_chief_is_done(tmp_path, _):
    for name in ("flota.toml", "train.py"):
        shutil.copy(ROOT / "examples" / "tensorflow_ps" / name, tmp_path)
    tensorflow = Peer("tensorflow", tmp_path)

    ended = tensorflow.flota(*command_of("tensorflow_ps")[1:])

    assert "workers 2  steps 100  variables on /job:ps/replica:0/task:0/" in ended.out
    last, slope, offset = re.search(r"loss \S+, then (\S+)  y = (\S+) x \+ (\S+)", ended.out).groups()
    assert float(last) < 0.01  # that of the first is not always larger: workers take steps in any order
    assert (float(slope), float(offset)) == pytest.approx((3, -2), abs=0.1)
    for rank in (0, 1):
        assert f"worker {rank} serves\n" in tensorflow.said(rank)
    assert "ps 0 serves\n" in tensorflow.said(0, role="ps")
    assert tensorflow.said(0, role="chief").endswith(ended.out)
