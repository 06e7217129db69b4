"""Python imports a module of this name before it runs a script. With this folder first on PYTHONPATH an interpreter
that was started as `python -u train.py` parks here, and goes on to its script, as a worker, when it is told to; or it
begins here to write down what it imports.

So nothing about the script is imitated: its file, `__main__`, arguments, traceback and exit are Python's own doing.
Runs on Python 3.8.
"""

import os
import site
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _restore() -> "None":
    """All as if this folder had never been on the way."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    given = os.environ.pop("FLOTA_PYTHONPATH", None)
    if given is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = given
    ours = sys.modules.pop("sitecustomize")
    site.execsitecustomize()  # the user's own, if there is one
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
        _load("flota.standby.parked_main").park(link)
    except BaseException:
        # Python would say that there was an error here, and go on to the script.
        import traceback

        traceback.print_exc()
        os._exit(70)


if "FLOTA_PARK" in os.environ:
    _park(int(os.environ.pop("FLOTA_PARK")))
elif os.environ.pop("FLOTA_RECORD", ""):
    _restore()
    try:
        _load("flota.standby.import_recorder").record(os.environ.get("FLOTA_CHANNEL", ""))
    except Exception:  # noqa: S110
        pass  # a worker that tells nothing is as good as any
