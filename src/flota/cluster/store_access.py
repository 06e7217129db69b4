"""This node's access to the job's store: the client, and the embedded master or the etcd that this node runs."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Mapping

from flota.cluster.lease_times import lease_of
from flota.cluster.member import MEMBERS
from flota.errors import BadCertificate, CannotServe
from flota.host.addresses import is_loopback, resolve_own
from flota.host.loop import Loop
from flota.host.ports import owner_of_port, pid_of_port
from flota.host.process_start import raise_open_files
from flota.job.nodes import NodesSpec, Place, Secrets
from flota.job.printable import printable
from flota.job.roster import endpoint
from flota.job.spec import JobSpec
from flota.run.console import Console
from flota.store.client import ANSWER_TIME, Client
from flota.store.dns import numeric
from flota.store.http_server import MOST_CONNECTIONS
from flota.store.keys import Keys
from flota.store.revoke_lease import revoke
from flota.store.server import Master

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from flota.cluster.chosen_members import ChosenMembers
    from flota.cluster.job_state import JobState
    from flota.cluster.multi_node import MultiNode
    from flota.etcd.node_etcd import NodeEtcd

TOKEN_BYTES = 16
SERVE_RETRY = 1.0
RESOLVE_RETRY = 15.0  # for a host name: a lookup may take seconds, during which no signal is handled
ELECTION = 2.5  # seconds until the members that are left have elected a leader, if the node that died had it
OWN_FILES, WORKERS_FILES = 64, 12  # besides the connections of clients, and per worker: logs, pipes, reserved ports


class StoreAccess:
    """`master`: the embedded master, if this node serves it. `chosen`: flota chose its address, so it must be shown.
    `nodes`: this node's settings, with the certificates that were made for it."""

    def __init__(
        self,
        spec: JobSpec,
        nodes: NodesSpec,
        environ: Mapping[str, str],
        loop: Loop,
        console: Console,
        on_refused: Callable[[str], None],
        on_full: Callable[[int], None],
    ) -> None:
        self._loop, self._console = loop, console
        self._own_files = OWN_FILES + WORKERS_FILES * spec.workers
        self._on_refused, self._on_full = on_refused, on_full
        self._etcd = _run_etcd(spec, nodes, environ, loop, console) if nodes.members else None
        nodes = self._etcd.nodes if self._etcd else nodes
        self.nodes, self._secrets = nodes, nodes.secrets
        self.chosen_members: ChosenMembers | None = None  # where the nodes chose the members
        self._served = ""  # the address on which the master listens
        self._port_in_use = False  # by another process of this machine
        self.lacks_certificate = False  # this machine has the master's address, but no certificate
        self.chosen = not nodes.places
        made = os.urandom(TOKEN_BYTES).hex() if self.chosen else ""
        self.token = "" if nodes.etcd else nodes.secrets.token or made  # etcd has its own users
        self.places = nodes.places or (Place(spec.address, 0),)
        run = f"{printable(spec.job_id)} {spec.restarts.earlier}"
        self._job = f"{zlib.crc32(run.encode()):08x}"
        self.tls = make_tls(nodes.secrets, server=False) if nodes.tls else None
        self.master = self._serve()
        self.client = self._make_client(self._etcd.places if self._etcd else self.places)
        if self._etcd:
            self._etcd.client, self._etcd.tls = self.client, self.tls

    def _make_client(self, members: tuple[Place, ...]) -> Client:
        tls = self.tls
        spare = () if self.master else self.nodes.spare_ports
        if self.master:
            members = (Place(self._served, self.master.port),)
            self.places = (Place(self.places[0].host, self.master.port),)
        if self.master and tls:
            # The certificate names the public host, which may differ from the address that this node connects to.
            import ssl

            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        # Of several members one may be silent: the next is asked before the lease expires. A single one gets more time:
        # when thousands of nodes start at once, retries would only add load.
        patience = max(1.0 if self.nodes.etcd else ANSWER_TIME, lease_of(self.nodes) / 5)
        user, password = self._secrets.user, self._secrets.password
        return Client(
            members,
            self._loop,
            self.token,
            tls,
            user=user,
            password=password,
            answer_time=patience,
            accepts_etcd=self.nodes.etcd,
            spare_ports=spare,
            job=self._job if spare else "",
        )

    @property
    def addresses(self) -> str:
        return ",".join(endpoint(place.host, str(place.port)) for place in self.places)

    @property
    def where(self) -> str:
        kind = (MEMBERS if self.nodes.members else "etcd at ") if self.nodes.etcd else ""
        return f"{kind}{self.addresses}"

    @property
    def serve_interval(self) -> float:
        """Seconds between attempts to serve the master while no node does."""
        return SERVE_RETRY if numeric(self.places[0].host, self.places[0].port) else RESOLVE_RETRY

    @property
    def is_local_only(self) -> bool:
        """Whether nodes on other machines cannot reach the master."""
        return self.master is not None and is_loopback(self._served)

    @property
    def port_was_taken(self) -> bool:
        """Whether the master has one of the spare ports, because another program has its own."""
        return self.master is not None and self.master.port in self.nodes.spare_ports

    @property
    def accepts_anyone(self) -> bool:
        """Whether the job is open to anyone who can reach its store."""
        return (self.master is not None and not self.token) or (self._etcd is not None and not self.nodes.tls)

    @property
    def deadline(self) -> float | None:
        parts = (self.client, self.master, self._etcd, self.chosen_members)
        times = (part.deadline if part else None for part in parts)
        return min((time for time in times if time is not None), default=None)

    def on_time(self, now: float) -> None:
        self.client.on_time(now)
        if self.master and self.master.deadline is not None and now >= self.master.deadline:
            self.master.on_time(now)
        for part in (self._etcd, self.chosen_members):
            if part:
                part.on_time(now)

    def is_needed(self, keys: Keys, job_state: JobState | None) -> bool:
        """Whether other nodes need the etcd of this node, after it has left the job."""
        over = job_state is not None and job_state.ending is not None
        return self._etcd is not None and self._etcd.is_needed(lambda own: self._make_client((own,)), keys, over=over)

    def on_node_death(self, lease: int, final_put: tuple[bytes, bytes]) -> Callable[[], object]:
        """What a shepherd does when its node dies, before it kills the workers: mark the node dead in the store.
        Otherwise workers of other nodes, which fail as a consequence, would be blamed. If that node serves the master,
        there is no store left.
        """
        if self.master:
            return bool
        headers, user, password = self.client.headers(), self._secrets.user, self._secrets.password
        given = self.client.members, lease, headers, self.tls, user, password, final_put
        return lambda: revoke(*given, seconds=ELECTION) if self._etcd else revoke(*given)

    def take_over(self) -> bool:
        """Serve the master now if this machine has acquired the address, or the port has become free."""
        if self.master is None:
            self.master = self._serve()
            if self.master:
                self.client.close()
                self.client = self._make_client(self.places)
                return True
        return False

    def check_port_owner(self) -> None:
        """Raise CannotServe if another program has the master's port on this machine. Another node may have it."""
        host, port = self.places[0]
        if self._port_in_use and (owner := owner_of_port(port)) and not _is_flota(pid_of_port(port)):
            raise CannotServe(endpoint(host, str(port)), f"the port is in use by {owner}, which does not answer")

    def close(self) -> None:
        self.client.close()
        if self.master:
            self.master.close()
        if self._etcd:
            self._etcd.close(self._console.spec.log.directory)
        if self.chosen_members:
            self.chosen_members.close()

    def _serve(self) -> Master | None:
        """Serve if this machine has the address and the port is free. All other nodes are clients."""
        if self.nodes.etcd or self.nodes.serves is False:
            return None
        host, port = self.places[0]
        address = resolve_own(host)
        self._served = address or ""
        if address is None:
            if self.nodes.serves:
                raise CannotServe(endpoint(host, str(port)), "it is not an address of this machine")
            return None
        self.lacks_certificate = self.nodes.tls and not self._secrets.certificate
        if self.lacks_certificate:
            return None  # another node of this machine may have one
        limit = raise_open_files(MOST_CONNECTIONS + self._own_files)
        most = limit - min(self._own_files, limit // 2)
        self._port_in_use = False
        tls = make_tls(self._secrets, server=True) if self.nodes.tls else None
        callbacks = self._on_refused, self._on_full
        for number in (port, *self.nodes.spare_ports):
            try:
                master = Master(address, number, self._loop, self.token, tls, *callbacks, most, self._job)
                master.refuses_nodes = (
                    f"add --masters {self.nodes.masters} to the command" if self.nodes.masters else ""
                )
                return master
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise CannotServe(endpoint(address, str(number)), error.strerror or str(error)) from None
        self._port_in_use = True
        return None


def choose_members(node: MultiNode, nodes: NodesSpec) -> ChosenMembers:
    from flota.cluster.chosen_members import ChosenMembers

    return ChosenMembers(node, nodes)


def _run_etcd(spec: JobSpec, nodes: NodesSpec, environ: Mapping[str, str], loop: Loop, console: Console) -> NodeEtcd:
    from flota.etcd.node_etcd import NodeEtcd

    return NodeEtcd(spec, nodes, environ, loop, console.say)


def _is_flota(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as words:
            command = words.read()
    except OSError:
        return False
    return is_flotas(command)


def is_flotas(command: bytes) -> bool:
    """Whether a command line, as in /proc, is flota's. A path that contains the word is not enough."""
    program = {os.path.basename(word) for word in command.split(b"\0")[:2]}
    return bool(program & {b"flota", b"fleetrun"}) or b"\0-m\0flota" in command


def make_tls(secrets: Secrets, *, server: bool) -> ssl.SSLContext:
    import ssl

    authority = "" if server else secrets.authority
    try:
        context = (
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if server else ssl.create_default_context(cafile=authority or None)
        )
        if server:
            # A client that renegotiates would have the master wait for a socket that is ready: its loop would spin.
            context.options |= ssl.OP_NO_RENEGOTIATION
        if server or secrets.certificate:
            context.load_cert_chain(secrets.certificate, secrets.key)
    except OSError as error:
        raise BadCertificate(authority or secrets.certificate, str(error)) from None
    return context
