"""What a view needs, and what is said without it."""

from __future__ import annotations

import sys

import pytest

from flota.cli.require_view import require_view
from flota.errors import NeedsTextual


def test_without_textual_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "textual", None)

    with pytest.raises(NeedsTextual, match="flota top needs the package textual"):
        require_view("flota top")
    assert "pip install textual" in NeedsTextual("flota top").hint
