"""python -m flota: the same command, and workers run by this same interpreter."""

import sys

from flota.cli.main import main

if __name__ == "__main__":
    sys.exit(main(interpreter=sys.executable))
