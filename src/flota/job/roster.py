"""The nodes of a round in order, with their addresses and ports, and the ranks that follow from the order.

Roles are numbered as the spec lists them; a job of equal trainers has only role 0. Pure.
"""

from __future__ import annotations

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.job.roles import Role


class Ports(NamedTuple):
    """A node's ports for one round, as strings: a dry run shows `<free>` for each."""

    workers: tuple[str, ...]
    torch: str
    paddle: str
    jax: str


NO_PORTS = Ports((), "", "", "")


class Seat(NamedTuple):
    """One node's place in the roster. `node` is its name in the store, if there is one. `workers_by_role` is the number
    of its workers per role; empty if all have role 0. `control`: the port at which it can be asked; empty: none.
    `copier`: the port at which other nodes fetch and send states of ranks; empty: none."""

    node: str
    host: str
    address: str
    ports: Ports
    workers_by_role: tuple[int, ...] = ()
    control: str = ""
    copier: str = ""

    @property
    def workers(self) -> int:
        return len(self.ports.workers)

    def workers_of(self, role: int) -> int:
        if self.workers_by_role:
            return self.workers_by_role[role] if role < len(self.workers_by_role) else 0
        return self.workers if role == 0 else 0

    def ports_of(self, role: int) -> tuple[str, ...]:
        first = sum(self.workers_by_role[:role])
        return self.ports.workers[first : first + self.workers_of(role)]


class Roster(NamedTuple):
    """The ordered list of nodes of one round, on which all nodes agree."""

    round: int
    attempt: int
    seats: tuple[Seat, ...]
    # Endpoints by role, and the seat of each role's rank 0: listed by the user, or computed once, because every worker
    # and framework needs the whole list, which may have thousands of entries.
    endpoints_by_role: tuple[tuple[str, ...], ...] = ()
    lead_seats: tuple[int, ...] = ()

    @property
    def workers(self) -> int:
        """The number of workers of all roles."""
        return sum(seat.workers for seat in self.seats)

    def size(self, role: int = 0) -> int:
        if self.endpoints_by_role:
            return len(self.endpoints_by_role[role])
        return sum(seat.workers_of(role) for seat in self.seats)

    def master(self, role: int = 0) -> Seat:
        """Return the seat of a role's rank 0."""
        if self.lead_seats:
            return self.seats[self.lead_seats[role]]
        return next((seat for seat in self.seats if seat.workers_of(role)), self.seats[0])

    def first_rank(self, seat_number: int, role: int = 0) -> int:
        """Return a node's first rank: the number of workers on all earlier nodes."""
        return sum(seat.workers_of(role) for seat in self.seats[:seat_number])

    def endpoints(self, role: int = 0) -> tuple[str, ...]:
        """Return the endpoints of all workers of a role, in rank order."""
        if self.endpoints_by_role:
            return self.endpoints_by_role[role]
        return tuple(endpoint(seat.address, port) for seat in self.seats for port in seat.ports_of(role))


def with_endpoints(roster: Roster, roles: tuple[Role, ...]) -> Roster:
    """Return the roster with the endpoints and the lead seat of each role."""
    masters = [roster.seats.index(roster.master(number)) for number in range(len(roles))]
    return roster._replace(
        endpoints_by_role=tuple(role.endpoints or roster.endpoints(number) for number, role in enumerate(roles)),
        lead_seats=tuple(role.lead if role.endpoints else masters[number] for number, role in enumerate(roles)),
    )


def endpoint(address: str, port: str) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def split_endpoint(text: str) -> tuple[str, str]:
    """Return an endpoint's address, without brackets, and its port, empty if it has none."""
    if text.startswith("["):
        address, _, port = text[1:].partition("]")
        return address, port.removeprefix(":")
    address, _, port = text.partition(":") if text.count(":") == 1 else (text, "", "")
    return address, port
