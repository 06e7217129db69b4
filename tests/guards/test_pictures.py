"""The pictures of docs/pictures: terminals of both sizes, the page light and dark; without names of the machine that made
them.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from struct import unpack_from
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
PAGES = sorted((ROOT / "docs" / "pictures").glob("*.png"))
SIZES = {"80x24", "200x50"}


def test_every_scene_has_a_picture_of_each_size():
    names = [picture.stem.rsplit("-", 1) for picture in PICTURES]

    assert sorted({(scene, size) for scene in dict(names) for size in SIZES}) == sorted(map(tuple, names))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
def test_a_picture_shows_a_neutral_machine(picture):
    text = "".join(ElementTree.fromstring(picture.read_text()).itertext())

    assert "gpu01" in text
    assert not [path for path in ("/tmp", "/root", "/home", ".venv", "site-packages") if path in text]


def test_the_page_is_there_in_light_and_dark():
    assert [picture.stem for picture in PAGES] == ["page-dark", "page-light"]


@pytest.mark.parametrize("picture", PAGES, ids=lambda picture: picture.stem)
def test_a_picture_of_the_page_is_used_and_contains_only_pixels(picture):
    data = picture.read_bytes()
    documents = chain(ROOT.glob("README*.md"), ROOT.glob("docs/**/*.md"))

    assert [path for path in documents if f"docs/pictures/{picture.name}" in path.read_text()]
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and unpack_from(">II", data, 16) == (1280, 900)
    assert {*chunks_of(data)} <= {"IHDR", "sRGB", "pHYs", "sBIT", "PLTE", "IDAT", "IEND"}  # no texts, no times
    assert len(data) < 300_000


def chunks_of(data: bytes) -> list[str]:
    """The names of all parts of a PNG file."""
    names, at = [], 8
    while at < len(data):
        size, name = unpack_from(">I4s", data, at)
        names.append(name.decode())
        at += size + 12
    return names
