"""Python imports a module of this name before it runs a script. With this folder first on PYTHONPATH, an interpreter
started as `python -u train.py` parks here until the node requests a worker, and then runs its script; or it starts to
record its imports here, or is prepared to exit after an error.

So Python itself runs the script: its file, `__main__`, arguments, traceback and exit are not emulated.
Runs on Python 3.8."""

import os
import site
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _restore() -> "None":
    """Remove all traces of this folder from PYTHONPATH and sys.path."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    given = os.environ.pop("FLOTA_PYTHONPATH", None)
    if given is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = given
    ours = sys.modules.pop("sitecustomize")
    site.execsitecustomize()  # the user's sitecustomize, if there is one
    sys.modules.setdefault("sitecustomize", ours)


def _load(module: "str") -> "Any":
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
    sys.path.insert(0, root)
    try:
        return __import__(module, fromlist=["*"])
    finally:
        sys.path.remove(root)


def _park(link: "int") -> None:
    try:
        _restore()
        _load("flota.standby.parked_main").ParkedInterpreter(link).serve()
    except BaseException:
        # Python would print the error and run the script all the same.
        import traceback

        traceback.print_exc()
        os._exit(70)


if "FLOTA_PARK" in os.environ:
    _park(int(os.environ.pop("FLOTA_PARK")))  # returns as the worker
    _records = ""
else:
    _records = os.environ.pop("FLOTA_RECORD", "")
    _restore()
_exits = os.environ.pop("FLOTA_EXIT_AFTER_ERROR", "")
try:
    if _records:
        _load("flota.standby.record_imports").record_imports(os.environ.get("FLOTA_CHANNEL", ""))
    if _exits:
        _load("flota.worker.exit_after_error").exit_after_error()
except Exception:  # noqa: S110
    pass  # the worker does not need them
