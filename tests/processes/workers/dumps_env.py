"""Writes its own environment and arguments to dump.<rank>.json."""

import json
import os
import sys

with open(f"dump.{os.environ['FLOTA_RANK']}.json", "w") as file:
    json.dump(
        {
            "env": dict(os.environ),
            "argv": sys.argv,
            "orig_argv": sys.orig_argv,
            "sid": os.getsid(0),
            "pid": os.getpid(),
            "cwd": os.getcwd(),
            "stdin": os.path.realpath("/proc/self/fd/0"),
        },
        file,
    )
