"""The terminal pictures of docs/pictures: of both sizes, and without names of the machine that made them."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

PICTURES = sorted((Path(__file__).parents[2] / "docs" / "pictures").glob("*.svg"))
SIZES = {"80x24", "200x50"}


def test_every_scene_has_a_picture_of_each_size():
    names = [picture.stem.rsplit("-", 1) for picture in PICTURES]

    assert sorted({(scene, size) for scene in dict(names) for size in SIZES}) == sorted(map(tuple, names))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
def test_a_picture_shows_a_neutral_machine(picture):
    text = "".join(ElementTree.fromstring(picture.read_text()).itertext())

    assert "gpu01" in text
    assert not [path for path in ("/tmp", "/root", "/home", ".venv", "site-packages") if path in text]
