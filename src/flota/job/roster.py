"""Who takes part in a round: nodes in order, their addresses and ports, and the ranks that follow from them.

Roles are numbered as the spec lists them; a job of equal trainers has role 0 alone. Pure.
"""

from __future__ import annotations

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.job.roles import Role


class Ports(NamedTuple):
    """A node's ports for one round, as text: a dry run shows `<free>` for each."""

    workers: tuple[str, ...]
    torch: str
    paddle: str
    jax: str


NO_PORTS = Ports((), "", "", "")


class Seat(NamedTuple):
    """One node's place in the roster. `node`: its name in the store, where there is one. `workers_by_role`: its
    workers of each role; none: all are of role 0."""

    node: str
    host: str
    address: str
    ports: Ports
    workers_by_role: tuple[int, ...] = ()

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
    """The agreed, ordered list of nodes of one round."""

    round: int
    attempt: int
    seats: tuple[Seat, ...]
    # Endpoints by role, and the seat of each role's number 0: listed by the user, or made once, as there are thousands
    # for each worker and framework.
    endpoints_by_role: tuple[tuple[str, ...], ...] = ()
    lead_seats: tuple[int, ...] = ()

    @property
    def workers(self) -> int:
        """All of them, whatever their role."""
        return sum(seat.workers for seat in self.seats)

    def size(self, role: int = 0) -> int:
        if self.endpoints_by_role:
            return len(self.endpoints_by_role[role])
        return sum(seat.workers_of(role) for seat in self.seats)

    def master(self, role: int = 0) -> Seat:
        """The seat of a role's number 0."""
        if self.lead_seats:
            return self.seats[self.lead_seats[role]]
        return next((seat for seat in self.seats if seat.workers_of(role)), self.seats[0])

    def first_rank(self, seat_number: int, role: int = 0) -> int:
        """rank = workers of all earlier nodes + local rank."""
        return sum(seat.workers_of(role) for seat in self.seats[:seat_number])

    def endpoints(self, role: int = 0) -> tuple[str, ...]:
        """Every worker's address, in rank order."""
        if self.endpoints_by_role:
            return self.endpoints_by_role[role]
        return tuple(endpoint(seat.address, port) for seat in self.seats for port in seat.ports_of(role))


def completed(roster: Roster, roles: tuple[Role, ...]) -> Roster:
    """With each role's endpoints made out."""
    masters = [roster.seats.index(roster.master(number)) for number in range(len(roles))]
    return roster._replace(
        endpoints_by_role=tuple(role.endpoints or roster.endpoints(number) for number, role in enumerate(roles)),
        lead_seats=tuple(role.lead if role.endpoints else masters[number] for number, role in enumerate(roles)),
    )


def endpoint(address: str, port: str) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def split_endpoint(text: str) -> tuple[str, str]:
    """An endpoint's address, without brackets, and its port; empty where it has none."""
    if text.startswith("["):
        address, _, port = text[1:].partition("]")
        return address, port.removeprefix(":")
    address, _, port = text.partition(":") if text.count(":") == 1 else (text, "", "")
    return address, port
