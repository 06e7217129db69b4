"""python -m flota.torch_launch: as `torch.distributed.launch`, which tells scripts their local rank as an argument."""

import sys

from flota.cli.main import main

if __name__ == "__main__":
    sys.exit(main(interpreter=sys.executable, legacy_local_rank=True))
