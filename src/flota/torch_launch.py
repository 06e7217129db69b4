"""python -m flota.torch_launch: like `torch.distributed.launch`, it passes the local rank to scripts as an argument."""

import sys

from flota.cli import command

if __name__ == "__main__":
    command(interpreter=sys.executable, legacy_local_rank=True)
