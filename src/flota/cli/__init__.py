"""The command line. Contains the entry point of the command, so that it runs before any other module is imported."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130


def command(*, interpreter: "str | None" = None, legacy_local_rank: bool = False) -> None:
    """Run the command with sys.argv, and exit. Ctrl-C exits at once until the job handles signals (run/start.py).

    Python's own handler raises an exception wherever the interpreter is, mostly inside an import: it prints a
    traceback, or the import system ignores the exception.
    """
    try:
        import _signal  # type: ignore[import-not-found]

        if _signal.getsignal(_signal.SIGINT) == _signal.default_int_handler:  # otherwise it is ignored, as with nohup
            _signal.signal(_signal.SIGINT, exit_interrupted)
    except KeyboardInterrupt:
        exit_interrupted()
    from flota.cli.main import main

    main(interpreter=interpreter, legacy_local_rank=legacy_local_rank)


def exit_interrupted(*_: object) -> "NoReturn":
    """Exit, also as process 1 of a container, which the default action of a signal does not end."""
    os._exit(INTERRUPTED)
