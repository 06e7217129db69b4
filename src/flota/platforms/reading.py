"""Reads numbers, names and lists from a platform's variables, and computes what follows from them. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from flota.errors import BadPlatformValue
from flota.job.hostlist import expand_hosts
from flota.job.roster import endpoint
from flota.job.spec import MachineShare
from flota.platforms import Hints

MOST = 1 << 53
# Below the ports that Linux gives to connections, apart from those that frameworks choose by default.
FIRST_PORT, PORTS = 20000, 8000
OWN_PORT = 8090  # where no other job shares the machine's address
POD_GRACE = 28.0  # Kubernetes waits 30 s by default
IN_NAMES = "-_."


class Variables:
    """The environment as a platform sets it. Errors name the platform, the variable and its value."""

    def __init__(self, title: str, environ: Mapping[str, str]) -> None:
        self.title = title
        self.environ = environ

    def error(self, name: str, wanted: str, word: str = "") -> BadPlatformValue:
        """`word`: what is wrong, if it is only a part of the value."""
        return BadPlatformValue(self.title, name, word or self.environ.get(name, ""), wanted)

    def number(self, name: str, least: int = 0, most: int = MOST, word: str = "") -> int:
        text = word or self.environ.get(name, "")
        if not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
            wanted = f"a number from {least} to {most}" if most < MOST else f"a number from {least}"
            raise self.error(name, wanted, word)
        return int(text)

    def rank(self, name: str, size: int, size_name: str) -> int:
        """A number below `size`, which `size_name` has set."""
        word = self.environ.get(name, "")
        if not (word.isascii() and word.isdecimal() and int(word) < size):
            raise self.error(name, f"a number below {size_name}={size}")
        return int(word)

    def optional(self, name: str) -> int:
        """A count, or 0 if it is not set."""
        return self.number(name) if self.environ.get(name) else 0

    def place(self, host: str, port: str) -> str:
        """The address of the master: the values of two variables."""
        if not self.environ.get(host):
            raise self.error(host, "an address")
        return endpoint(self.environ[host], str(self.number(port, 1, 65535)))

    def hosts(self, name: str) -> list[str]:
        try:
            return expand_hosts(self.environ.get(name, ""))
        except ValueError as error:
            raise self.error(name, f"a list of hosts ({error})") from None


def port_for(job_id: str) -> int:
    """Return the master's port. Jobs that share a machine have different ids, so mostly different ports."""
    number = int(job_id) if job_id.isascii() and job_id.isdecimal() else zlib.crc32(job_id.encode(errors="replace"))
    return FIRST_PORT + number % PORTS


def as_name(text: str) -> str:
    """Return a job's id as a name for files."""
    return "".join(letter if letter.isalnum() or letter in IN_NAMES else "-" for letter in text).strip("-.")


def of_task(variables: Variables, rank: str, size: str, local_rank: str, local_size: str) -> Hints:
    """Return the layout of a launcher that numbers its processes: one per machine, or one per worker."""
    count = variables.number(size, 1)
    own, on_machine = variables.rank(rank, count, size), variables.number(local_size, 1, count)
    if on_machine == 1:
        return Hints(size, count, own, rank)
    # The numbers of a machine are consecutive by default, and no variable says otherwise.
    machine, machines = own // on_machine, -(-count // on_machine)
    share = MachineShare(variables.rank(local_rank, on_machine, local_size), on_machine, machine, machines)
    return Hints(size, count, own, rank, workers=1, workers_source=size, share=share)
