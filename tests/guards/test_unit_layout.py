"""tests/unit mirrors src/flota: the tests of cluster/seating.py are in tests/unit/cluster/test_seating.py."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests" / "unit"


@pytest.mark.parametrize("path", sorted(UNIT.rglob("test_*.py")), ids=lambda path: str(path.relative_to(UNIT)))
def test_a_unit_test_is_named_after_a_module_or_package(path):
    place = path.relative_to(UNIT)
    package = ROOT / "src" / "flota" / place.parent
    name = place.stem.removeprefix("test_")

    assert (package / f"{name}.py").is_file() or (package / name).is_dir()
