"""python -m flota: the same command, with this interpreter for the workers."""

import sys

from flota.cli.main import main

if __name__ == "__main__":
    sys.exit(main(interpreter=sys.executable))
