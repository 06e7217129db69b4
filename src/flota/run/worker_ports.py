"""Which ports a node's workers get for a round, and how long a restart waits for one that the user has chosen.

Rank 0's are the masters' as well: the port where torch's, Paddle's and JAX's other ranks find it.
"""

from __future__ import annotations

from flota.errors import FlotaError, PortInUse
from flota.host.ports import check_own_address, hold_exactly, hold_free, port_of, release
from flota.job.roles import SERVER
from flota.job.roster import Ports, split_endpoint
from flota.job.spec import JobSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

    from flota.run.console import Console

MASTERS = 3  # torch's, Paddle's and JAX's
LOOK_AGAIN = 0.1  # seconds between looks whether a port is free: nothing tells of it


def hold_ports(spec: JobSpec) -> tuple[list[socket], Ports]:
    """Fresh ports every round, so that no worker meets a dead round's store, except those that the user has
    chosen. The workers' come first, in the order of their local ranks, then the masters'; see job/roster.py."""
    check_own_address(spec.address)
    chosen = chosen_ports(spec)
    held = hold_exactly(chosen, spec.address)
    needed = spec.workers + MASTERS - len(chosen)
    try:
        held += hold_free(needed, spec.address, spec.port_range)
        if spec.gloo_port and spec.gloo != "0" and _serves_gloo(spec):
            held += hold_exactly([spec.gloo_port], spec.address)
    except FlotaError:
        release(held)
        raise
    numbers = [port_of(holder) for holder in held]
    return held, Ports(tuple(numbers[: spec.workers]), *numbers[spec.workers : spec.workers + MASTERS])


def chosen_ports(spec: JobSpec) -> list[int]:
    """The workers' ports where the user has chosen them: as a list of addresses, or as the first of a row."""
    if spec.start_port:
        return list(range(spec.start_port, spec.start_port + spec.workers))
    return [int(split_endpoint(role.endpoints[own])[1]) for role in spec.roles for own in role.own]


def _serves_gloo(spec: JobSpec) -> bool:
    """Whether the first server is known to be here."""
    server = next((role for role in spec.roles if role.name == SERVER), None)
    return server is not None and (0 in server.own if server.endpoints else spec.nodes is None and server.workers > 0)


class PortWait:
    """A port that the user has chosen may still be in use for a moment: a restart waits for it."""

    def __init__(self, console: Console, timeout: float) -> None:
        self._console = console
        self._timeout = timeout
        self._give_up_at: float | None = None

    def next_try(self, error: FlotaError, now: float) -> float | None:
        """When to try again; None: that would not help, or has not helped for too long."""
        if not isinstance(error, PortInUse):
            return None
        if self._give_up_at is None:
            self._give_up_at = now + self._timeout
            self._console.say("INFO", f"{error.message}; the restart waits for it")
        return now + LOOK_AGAIN if now < self._give_up_at else None

    def end(self) -> None:
        """The port was free."""
        self._give_up_at = None
