"""Kinds of crashes, and the first line of the report for each. Each is a function in workers/crashes.py."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

CRASHES, ADVANCES = (Path(__file__).parent / "workers" / name for name in ("crashes.py", "advances.py"))


class Kind(NamedTuple):
    """`ending`: the text after `rank N failed first: `."""

    fault: str
    ending: str
    cause: str
    code: int


KINDS = [
    Kind("raises", "exit code 1 (ValueError) after", "exception", 1),
    Kind("raises_and_cleans_up", "exit code 1 (ValueError) after", "exception", 1),
    Kind("catches_and_gives_up", "exit code 3 after", "exited", 3),
    Kind("mentions_a_connection", "exit code 1 (ValueError) after", "exception", 1),
    Kind("dies_slowly", "SIGTERM (ValueError) after", "exception", 1),
    Kind("records", "exit code 1 (ValueError) after", "exception", 1),
    Kind("recurses", "exit code 1 (RecursionError) after", "exception", 1),
    Kind("exits", "exit code 7 after", "exited", 7),
    Kind("exits_with_2", "exit code 2 after", "exited", 2),
    Kind("exits_with_words", "exit code 1 after", "exited", 1),
    Kind("is_killed", "SIGKILL (killed by another process) after", "killed", 137),
    Kind("is_terminated", "SIGTERM (terminated by another process) after", "terminated", 143),
    Kind("is_interrupted", "SIGINT (interrupted) after", "signalled", 130),
    Kind("segfaults", "SIGSEGV (segmentation fault) after", "segmentation-fault", 139),
    Kind("aborts", "SIGABRT (aborted) after", "aborted", 134),
    Kind("meets_a_bus_error", "SIGBUS (bus error) after", "signalled", 135),
    Kind("asks_for_too_much", "exit code 1 (the machine is out of memory) after", "out-of-memory", 1),
    Kind("fills_the_device", "exit code 1 (out of memory on the device) after", "device-out-of-memory", 1),
    Kind("fills_paddles_device", "exit code 1 (out of memory on the device) after", "device-out-of-memory", 1),
    Kind("fills_jaxs_device", "exit code 1 (out of memory on the device) after", "device-out-of-memory", 1),
    Kind("fills_the_disk", "exit code 1 (the disk is full) after", "disk-full", 1),
    Kind("lacks_a_module", "exit code 1 (no module named 'apex_of_nobody') after", "missing-module", 1),
    Kind("cannot_import", "exit code 1 (failed import: cannot import name 'no_such_name'", "failed-import", 1),
    Kind("takes_a_used_port", "exit code 1 (the port is already in use) after", "port-in-use", 1),
    Kind("opens_too_many_files", "exit code 1 (too many open files) after", "too-many-files", 1),
    Kind("gets_local_rank", "exit code 2 (the script does not accept --local-rank) after", "local-rank-argument", 2),
    Kind("lacks_an_argument", "exit code 2 (the following arguments are required: --data) after", "usage", 2),
    Kind("has_bad_syntax", "exit code 1 (SyntaxError: invalid syntax) after", "syntax-error", 1),
    Kind("has_no_script", "exit code 2 (can't open '/no/such/train.py'", "bad-path", 2),
    Kind("reads_badly", "exit code 1 (SystemError) after", "exception", 1),
]
EARLY = Kind("leaves_early", "exit code 0 (while others were still running) after", "left-early", 1)
MEMORY = Kind("takes_all_memory", "SIGKILL (killed by the OOM killer: ", "out-of-memory", 137)
