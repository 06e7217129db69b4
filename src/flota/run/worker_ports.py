"""Chooses the ports of a node's workers, and lets a restart wait for ports that the user chose.

Rank 0 also gets the master ports, where torch's, Paddle's and JAX's other ranks connect.
"""

from __future__ import annotations

from flota.errors import FlotaError, PortInUse
from flota.host.ports import check_own_address, hold_exactly, hold_free, keep_other_users_out, port_of, release
from flota.job.roles import SERVER
from flota.job.roster import Ports, split_endpoint
from flota.job.spec import JobSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

    from flota.run.console import Console

MASTER_PORTS = 3  # torch's, Paddle's and JAX's
RETRY_INTERVAL = 0.1  # seconds; the system does not report when a port becomes free


def hold_ports(spec: JobSpec) -> tuple[list[socket], Ports]:
    """Hold the ports of this node's workers. Each round gets new ports, so that no worker connects to the store of an
    earlier round, unless the user chose them. Workers' ports come first, by local rank, then the master ports."""
    check_own_address(spec.address)
    chosen = chosen_ports(spec)
    held = hold_exactly(chosen, spec.address)
    needed = spec.workers + MASTER_PORTS - len(chosen)
    try:
        held += hold_free(needed, spec.address, spec.port_range)
        if spec.gloo_port and spec.gloo != "0" and _serves_gloo(spec):
            held += hold_exactly([spec.gloo_port], spec.address)
    except FlotaError:
        release(held)
        raise
    keep_other_users_out(held[spec.workers + MASTER_PORTS - 1])  # of the frameworks' servers, only JAX's can share so
    numbers = [port_of(holder) for holder in held]
    return held, Ports(tuple(numbers[: spec.workers]), *numbers[spec.workers : spec.workers + MASTER_PORTS])


def chosen_ports(spec: JobSpec) -> list[int]:
    """The workers' ports, if the user chose them with --start_port or in a list of addresses."""
    if spec.start_port:
        return list(range(spec.start_port, spec.start_port + spec.workers))
    return [int(split_endpoint(role.endpoints[own])[1]) for role in spec.roles for own in role.own]


def _serves_gloo(spec: JobSpec) -> bool:
    """Whether the first server runs on this node."""
    server = next((role for role in spec.roles if role.name == SERVER), None)
    return server is not None and (0 in server.own if server.endpoints else spec.nodes is None and server.workers > 0)


class PortWait:
    """Lets a restart wait for a port that the user chose and that is still in use."""

    def __init__(self, console: Console, timeout: float) -> None:
        self._console = console
        self._timeout = timeout
        self._give_up_at: float | None = None

    def next_try(self, error: FlotaError, now: float) -> float | None:
        """When to try again; None if another try cannot help or the timeout is over."""
        if not isinstance(error, PortInUse):
            return None
        if self._give_up_at is None:
            self._give_up_at = now + self._timeout
            self._console.say("INFO", f"{error.message}; waiting up to {self._timeout:g} s to restart")
        return now + RETRY_INTERVAL if now < self._give_up_at else None

    def end(self) -> None:
        """Stop waiting: the ports were free."""
        self._give_up_at = None
