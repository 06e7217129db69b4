"""python -m flota: the same command, with this interpreter for the workers."""

import sys

from flota.cli import command

if __name__ == "__main__":
    command(interpreter=sys.executable)
