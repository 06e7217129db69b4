"""Prints what a worker got; the rank that is the first argument fails."""

from __future__ import annotations

import os
import sys

rank, get = os.environ["FLOTA_RANK"], os.environ.get
print(
    f"RESULT rank={rank} node={get('FLOTA_NODE_RANK')} of={get('WORLD_SIZE')} devices={get('CUDA_VISIBLE_DEVICES')}"
    f" breakpoint={get('PYTHONBREAKPOINT')} token={get('FLOTA_TOKEN')}",
    flush=True,
)
sys.exit(7 if rank in sys.argv[1:] else 0)
