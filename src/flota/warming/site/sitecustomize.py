"""Python imports a module of this name before it runs a script. With this folder first on PYTHONPATH an interpreter
that was started as `python -u train.py` parks here, and goes on to its script, as a worker, when it is told to.

So nothing about the script is imitated: its file, `__main__`, arguments, traceback and exit are Python's own doing.
Runs on Python 3.8.
"""

import os
import site
import sys


def _restore() -> "int":
    """All as if this folder had never been on the way; the number of the link to the node."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    link = int(os.environ.pop("FLOTA_PARK"))
    given = os.environ.pop("FLOTA_PARK_PYTHONPATH", None)
    if given is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = given
    ours = sys.modules.pop("sitecustomize")
    site.execsitecustomize()  # the user's own, if there is one
    sys.modules.setdefault("sitecustomize", ours)
    return link


def _enter(link: "int") -> None:
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
    sys.path.insert(0, root)
    try:
        from flota.warming.inside import park
    finally:
        sys.path.remove(root)
    park(link)


if "FLOTA_PARK" in os.environ:
    try:
        _enter(_restore())
    except BaseException:
        # Python would say that there was an error here, and go on to the script.
        import traceback

        traceback.print_exc()
        os._exit(70)
