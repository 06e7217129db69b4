"""The files of imported modules, and whether one has changed since.

Runs in workers' interpreters: Python 3.8.
"""

from __future__ import annotations

import os
import sys
import time


class Files:
    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}
        self._written = ""  # while it was imported, or after: nobody knows which text was taken

    def begin(self) -> None:
        self._began = time.time_ns()

    def end(self, others: list[str]) -> None:
        """`others`: what else imports depended on."""
        for path in _module_files() + others:
            seen = _seen(path)
            if seen and path not in self._seen:
                self._seen[path] = seen
                if seen[0] > self._began:
                    self._written = self._written or path

    def changed(self) -> str:
        """A file that is not any more what was imported."""
        return self._written or next((path for path, seen in self._seen.items() if _seen(path) != seen), "")


def _module_files() -> list[str]:
    """Of what is not Python's own."""
    own = os.path.dirname(os.__file__) + os.sep
    packages = os.path.join(own, "site-packages")
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return [path for path in files if path and (not path.startswith(own) or path.startswith(packages))]


def _seen(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
