"""Documents in step with the code."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
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


def walks() -> dict[str, list[str]]:
    """The four walks of architecture.md: their files in order, each with its package."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.partition("## Four walks")[2].partition("\n## ")[0]
    found = {}
    for paragraph in section.strip().split("\n\n")[1:]:
        title = re.match(r"\*\*(.+?)\*\*", paragraph)
        package, files = "", []
        for name in re.findall(r"`([\w/]+)`", paragraph.partition(": ")[2]):
            package, name = name.rsplit("/", 1) if "/" in name else (package, name)
            files.append(f"{package}/{name}.py")
        found[title.group(1) if title else paragraph] = files
    return found


@pytest.mark.parametrize(("number", "most"), [(0, 30), (1, 30), (2, 20), (3, 16)])
def test_the_walks_of_the_architecture_lead_through_files_that_are_there(number, most):
    title, files = list(walks().items())[number]

    assert [file for file in files if not (ROOT / "src" / "flota" / file).exists()] == [], title
    assert 10 < len(set(files)) <= most, title


def test_a_hang_is_followed_to_its_suspect_with_few_changes_of_package():
    files = list(walks().values())[2]
    packages = [file.partition("/")[0] for file in files]

    assert sum(one != other for one, other in pairwise(packages)) <= 17
