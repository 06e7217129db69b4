"""Rank 1 fails while its log shows nothing of it: `main` is recorded, the whole `script`, or neither (`no`)."""

import os
import sys

import flota

os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
what = sys.argv[1]


def main() -> None:
    if flota.env().rank == 1:
        read_shard("shard-00017")


def read_shard(name: str) -> None:
    raise ValueError(f"{name} is torn")


if what == "main":
    flota.record(main)()
elif what == "script":
    flota.record()
    main()
else:
    main()
