"""torch: rank 1 fails under @record, with nothing of it in its log: the error file alone has the traceback."""

import os
import sys

from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    if os.environ["RANK"] == "1":
        read_shard("shard-00017")


def read_shard(name):
    raise ValueError(f"{name} is torn")


main()
