"""python -m flota.torch_launch: like `torch.distributed.launch`, it passes the local rank to scripts as an argument."""

import sys

from flota.cli.main import main

if __name__ == "__main__":
    sys.exit(main(interpreter=sys.executable, legacy_local_rank=True))
