"""Prints the lines that a test puts into the file `say`, or `say.RANK`, one after the other, until one of them is `end`."""

import os
import sys
import time

rank = os.environ["RANK"]
attempt = int(os.environ["FLOTA_ATTEMPT"])
sys.stdout.reconfigure(newline="\n")
print(f"attempt {attempt}", flush=True)
said = 0
while True:
    own = f"say.{rank}" if os.path.exists(f"say.{rank}") else "say"
    lines = open(own, newline="").read().split("\n")[:-1] if os.path.exists(own) else []
    for line in lines[said:]:
        said += 1
        if line == "end":
            sys.exit(0)
        if line == f"fail in attempt {attempt}":
            sys.exit(3)
        print(line.replace("RANK", rank), flush=True)
    time.sleep(0.02)
