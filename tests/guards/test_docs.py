"""Documents in step with the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_the_reference_is_what_the_code_says():
    result = subprocess.run(
        [sys.executable, ROOT / "docs" / "make_reference.py", "--check"], capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, f"run make docs: {result.stdout}{result.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_architecture_names_every_package():
    text = (ROOT / "docs" / "architecture.md").read_text()

    for package in (ROOT / "src" / "flota").glob("*/__init__.py"):
        assert f"{package.parent.name}/" in text, package
