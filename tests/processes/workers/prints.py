"""Prints LINES numbered lines on stdout, as fast as it can."""

import os
import sys

rank = os.environ["RANK"]
sys.stdout.writelines(
    f"rank {rank} line {number}\n" for number in range(int(os.environ.get("LINES_TO_PRINT", "20000")))
)
