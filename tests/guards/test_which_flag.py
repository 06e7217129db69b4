"""The page "Which flag do I need?" names flags that exist, and links to sections that exist."""

from __future__ import annotations

import re
from pathlib import Path

from flota.cli.commands import REGISTRY
from flota.cli.flags import ALIASES, FLAGS

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "which-flag.md"
FLAG = r"(?<![\w-])--?[a-z][\w-]*"
CODE = r"`([^`]+)`"


def names() -> set[str]:
    """All flags that flota accepts, with dashes."""
    long = {f"--{row.name}" for row in (*FLAGS, *ALIASES)} - {f"--{flag.name}" for flag in FLAGS if flag.refused}
    return long | {flag.short for flag in FLAGS if flag.short}


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_flag_on_the_page_exists():
    named = [flag.replace("_", "-") for code in re.findall(CODE, PAGE.read_text()) for flag in re.findall(FLAG, code)]

    # `--lr` and `--local-rank` are arguments of a script.
    assert set(named) - names() - {"--lr", "--local-rank"} == set()
    assert len(set(named)) > 30


def test_every_subcommand_on_the_page_exists():
    named = re.findall(r"run `flota (\w+)`", PAGE.read_text())

    assert set(named) - {row.name for row in REGISTRY} == set()


def test_every_link_on_the_page_leads_to_a_section():
    for target, anchor in re.findall(r"\]\(([^)#]+)#([^)]+)\)", PAGE.read_text()):
        assert anchor in anchors(PAGE.parent / target), f"{target}#{anchor}"
