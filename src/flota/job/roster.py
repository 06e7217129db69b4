"""Who takes part in a round: nodes in order, their addresses and ports, and the ranks that follow from them."""

from __future__ import annotations

from flota.values import NamedTuple


class Ports(NamedTuple):
    """A node's ports for one round, as text: a dry run shows `<free>` for each."""

    workers: tuple[str, ...]
    torch: str
    paddle: str
    jax: str


class Seat(NamedTuple):
    """One node's place in the roster."""

    node: str
    address: str
    ports: Ports

    @property
    def workers(self) -> int:
        return len(self.ports.workers)


class Roster(NamedTuple):
    """The agreed, ordered list of nodes of one round."""

    round: int
    attempt: int
    seats: tuple[Seat, ...]
    listed: tuple[str, ...] = ()  # the endpoints, where they have been made: thousands, for each worker and framework

    @property
    def world_size(self) -> int:
        return sum(seat.workers for seat in self.seats)

    @property
    def master(self) -> Seat:
        return self.seats[0]

    def first_rank(self, seat_number: int) -> int:
        """rank = workers of all earlier nodes + local rank."""
        return sum(seat.workers for seat in self.seats[:seat_number])

    def endpoints(self) -> list[str]:
        """Every worker's address, in rank order."""
        return list(self.listed) or [endpoint(seat.address, port) for seat in self.seats for port in seat.ports.workers]


def endpoint(address: str, port: str) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
