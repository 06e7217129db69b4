"""torch: fails under torch's @record with flota's around it (`mine` is written last), or the other way round."""

import os
import sys

from torch.distributed.elastic.multiprocessing.errors import record

import flota

os.environ["TORCHELASTIC_ERROR_FILE"] = f"{sys.argv[1]}.json"


def main():
    raise ValueError("shard-00017 is torn")


if sys.argv[1] == "mine":
    flota.record()
    flota.record(record(main))()
else:
    record(flota.record(main))()
