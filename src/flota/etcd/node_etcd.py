"""The etcd that this node runs if its host is in --master: files, certificates and process; and what clients need."""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Callable, Mapping

from flota.errors import NoEtcd, NoRoomForEtcd, OtherMembers
from flota.etcd.cleaner_process import CleanerProcess
from flota.etcd.job_certificates import make_certificates
from flota.etcd.last_reader import LastReader
from flota.etcd.list_check import ListCheck
from flota.etcd.member_flags import TlsFiles, cluster_token, command_line, member_environment, name_of, peer_place
from flota.etcd.member_process import SIGKILL, SIGTERM, MemberProcess
from flota.etcd.membership import SPARE_CHECK, Membership
from flota.etcd.private_directory import PrivateDirectory
from flota.etcd.program import find_program
from flota.etcd.spare_member import MemberProbe, MissingMembers, take_turn
from flota.files import open_file
from flota.host.addresses import own_addresses, resolve_own
from flota.host.loop import Loop
from flota.host.process_start import APPEND
from flota.job.log_template import as_file_name
from flota.job.nodes import NodesSpec, Place
from flota.job.printable import printable
from flota.job.spec import JobSpec
from flota.logs.directory import append, open_append
from flota.store.client import Client
from flota.store.client_connection import Lost
from flota.store.etcd_json import EtcdMember, Refusal, StoreAnswer, StoreRequest
from flota.store.keys import Keys, keys_of

SMALL = 1 << 20  # bytes, for certificates alone
SPARES_PER_SECOND = 4  # that look for a lost member: thousands of nodes must not keep the members busy
LIST_CHECK = 3.0  # seconds without an answer until the lists of the members are compared, and between comparisons


class NodeEtcd:
    """`nodes`: the settings with which this node is a client. `client`, and its `tls`, must be set before the first
    `on_time`."""

    client: Client
    tls: ssl.SSLContext | None

    def __init__(
        self, spec: JobSpec, nodes: NodesSpec, environ: Mapping[str, str], loop: Loop, say: Callable[[str, str], object]
    ) -> None:
        self._spec, self._environ, self._loop, self.say = spec, environ, loop, say
        self._addresses = {place: address for place in nodes.places if (address := resolve_own(place.host))}
        self._spare = None if self._addresses else Place(spec.address, nodes.places[0].port)
        try:
            self._program = find_program(environ)
            self._directory = PrivateDirectory(environ)
        except (NoEtcd, NoRoomForEtcd):
            if not self._spare:
                raise
            self._spare = None
            self._directory = PrivateDirectory(environ, needed=SMALL)
        self._cleaner = CleanerProcess(self._directory.path)
        self._process: MemberProcess | None = None
        self._last_reader: LastReader | None = None
        self._is_over = False
        self._probe: MemberProbe | None = None
        self._missing = MissingMembers()
        self._list_check: ListCheck | None = None
        self._check_list_at = time.monotonic() + LIST_CHECK
        self._announced: Place | None = None
        self._token = cluster_token(nodes.places, printable(spec.job_id))
        try:
            self.nodes = self._with_certificates(nodes)
        except BaseException:
            self._remove_directory()
            raise
        secrets = self.nodes.secrets
        self._tls = TlsFiles(secrets.authority, secrets.certificate, secrets.key) if self.nodes.tls else None
        own = tuple(self._addresses)
        tls, interval = self.nodes.tls, max(SPARE_CHECK, nodes.most / SPARES_PER_SECOND)
        self.membership = Membership(
            nodes.places, own, self, time.monotonic, tls=tls, spare=self._spare, interval=interval
        )

    def _with_certificates(self, nodes: NodesSpec) -> NodesSpec:
        """With TLS if the job has a token, or if users have given certificates of their own."""
        secrets = nodes.secrets
        if nodes.tls or not secrets.token:
            return nodes
        # Members also check that a certificate is for the address from which another member connects.
        hosts = [*(place.host for place in self._addresses), *(address for _, address in own_addresses())]
        files = make_certificates(self._directory.path, secrets.token, [*hosts, self._spec.address])
        made = secrets._replace(authority=files.authority, certificate=files.certificate, key=files.key)
        return nodes._replace(tls=True, secrets=made)

    @property
    def places(self) -> tuple[Place, ...]:
        """Where clients ask: first at this node's own member, whose name may resolve to another address here."""
        own = [Place(address, place.port) for place, address in self._addresses.items()]
        return (*own, *(place for place in self.nodes.places if place not in self._addresses))

    @property
    def deadline(self) -> float | None:
        parts = (self.membership, self._last_reader, self._probe)
        check_list = None if self.client.has_answered else self._check_list_at
        times = (*(part.deadline if part else None for part in parts), check_list)
        return min((time for time in times if time is not None), default=None)

    def on_time(self, now: float) -> None:
        if self.client.has_answered:
            self.membership.note_answer()
        elif now >= self._check_list_at:
            self._check_list(now)
        self.membership.on_time(now)
        for part in (self._last_reader, self._probe):
            if part:
                part.on_time(now)

    def _check_list(self, now: float) -> None:
        """No member answers: they may have been started with different lists."""
        self._check_list_at = now + LIST_CHECK
        place = self.membership.place
        if place and (self._list_check is None or self._list_check.is_done):
            own, others = Place(self._address(place), place.port), [one for one in self.nodes.places if one != place]
            self._list_check = ListCheck(own, others, self.tls, self._loop, self._on_other_list)

    def _on_other_list(self, place: Place) -> None:
        if not self.client.has_answered:
            raise OtherMembers(name_of(place), ",".join(map(name_of, self.nodes.places)))

    def is_needed(self, own_client: Callable[[Place], Client], keys: Keys, *, over: bool) -> bool:
        """Whether other nodes need this member, after this node has left the job. `over`: the job has ended for all.
        Otherwise it leaves the cluster first."""
        self._is_over = over
        place = self.membership.place
        if over and place and not self._last_reader:
            own = own_client(Place(self._address(place), place.port))
            self._last_reader = LastReader(own, keys)
        elif not over and not self.membership.leaving:
            self.membership.leave()
        return not (self._last_reader.done if self._last_reader else over or self.membership.has_left)

    def _remove_directory(self) -> None:
        self._directory.remove()
        self._cleaner.stop()

    def close(self, log_directory: str) -> None:
        """If no node needs the store any more, there is nothing to pass on."""
        for part in (self._list_check, self._probe):
            if part:
                part.close()
        if self._process:
            self._process.stop(SIGKILL if self._is_over else SIGTERM)
            self._process = None
        if self._spec.log.per_run and os.path.exists(self._log):
            with open(self._log, "rb") as log:
                end = open_append(f"{log_directory}/{os.path.basename(self._log)}")
                append(end, log.read())
                os.close(end)
        self._remove_directory()

    @property
    def _log(self) -> str:
        """While the directory of this run is not known, the log is with the data, and is copied at the end."""
        own = f"etcd.{as_file_name(os.uname().nodename)}.log"
        return f"{self._directory.path if self._spec.log.per_run else self._spec.log.directory}/{own}"

    def _address(self, place: Place) -> str:
        return self._addresses.get(place, place.host)  # a spare's own address

    # Steps of the membership.

    def launch(self, place: Place, cluster: Mapping[str, str], *, joins: bool) -> None:
        data = self._directory.new_data()
        argv = command_line(
            *(self._program.path, place, self._address(place), data, cluster, self._token, self._tls), joins=joins
        )
        env = member_environment(self._environ)
        log = self._usable_log()
        self._process = MemberProcess(argv, env, log, self._directory, self._loop, self._on_exit)
        if place != self._announced:
            self._announced = place
            ports = f"ports {place.port} and {peer_place(place).port}"
            self.say("INFO", f"this node runs etcd {self._program.version} ({ports}); its log is {log}")

    def _usable_log(self) -> str:
        try:
            os.close(open_file(self._log, APPEND, 0o644))
        except OSError as error:
            self.say("WARNING", f"cannot write the log of etcd: {error}")
            return f"{self._directory.path}/etcd.log"
        return self._log

    def _on_exit(self) -> None:
        self._process = None
        self.membership.on_exit()

    def are_ports_free(self, place: Place) -> bool:
        address = self._address(place)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        for port in (place.port, peer_place(place).port):
            try:
                socket.create_server((address, port), family=family).close()
            except OSError:
                return False
        return True

    def ask(self, request: StoreRequest, then: Callable[[StoreAnswer | Refusal | Lost], None]) -> None:
        self.client.ask(request, then, time.monotonic())

    def probe(self, members: list[EtcdMember], then: Callable[[list[str]], object]) -> None:
        self._probe = MemberProbe(members, self._loop, self.tls, then)

    def find_lost(self, silent: list[str]) -> str:
        return self._missing.find_lost(silent, time.monotonic())

    def take_turn(self, lease: int) -> StoreRequest:
        return take_turn(keys_of(printable(self._spec.job_id)), lease)
