"""adapter(): an init_<framework> module beside a framework that only records what it is asked."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

import pytest


@pytest.fixture
def adapter(monkeypatch):
    """A framework's file, beside a framework that only notes what it is asked."""

    def load(name, **parts):
        framework = ModuleType(name)
        for part, value in parts.items():
            setattr(framework, part, value)
            if isinstance(value, ModuleType):
                monkeypatch.setitem(sys.modules, value.__name__, value)
        monkeypatch.setitem(sys.modules, name, framework)
        monkeypatch.delitem(sys.modules, f"flota.worker.init_{name}", raising=False)
        module = import_module(f"flota.worker.init_{name}")
        # The next one to import it must find the framework itself.
        monkeypatch.delitem(sys.modules, f"flota.worker.init_{name}")
        return module

    return load
