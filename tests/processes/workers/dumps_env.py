"""Writes its own environment and arguments to dump.<rank>.json; of another role than trainer, to dump.<role>.<rank>.json."""

import json
import os
import sys

role, rank = os.environ["FLOTA_ROLE"], os.environ["FLOTA_RANK"]
with open(f"dump.{rank}.json" if role == "trainer" else f"dump.{role}.{rank}.json", "w") as file:
    json.dump(
        {
            "env": dict(os.environ),
            "argv": sys.argv,
            "orig_argv": sys.orig_argv,
            "sid": os.getsid(0),
            "pid": os.getpid(),
            "cwd": os.getcwd(),
            "stdin": os.path.realpath("/proc/self/fd/0"),
            "stdout": os.path.realpath("/proc/self/fd/1"),
        },
        file,
    )
