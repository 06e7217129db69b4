"""With --masters: waits until it is known which nodes run etcd, and then keeps the list for nodes that join later."""

from __future__ import annotations

import os
import socket
import time

from flota.cluster.member import refusal_in_words
from flota.cluster.member_choice import LAST_PORT, MemberChoice
from flota.cluster.messages import ClusterMessages
from flota.cluster.store_access import SERVE_RETRY, StoreAccess
from flota.errors import (
    CannotJoin,
    FlotaError,
    NoAnswerInTime,
    NoEtcd,
    OtherJobAtMaster,
    StoppedWhileJoining,
    TooFewMembers,
)
from flota.etcd.member_flags import name_of, peer_place
from flota.etcd.program import find_program
from flota.humanize import limit_in_words, signal_name
from flota.job.nodes import NodesSpec, Place
from flota.job.printable import printable
from flota.store.client import OnAnswer
from flota.store.etcd_json import TEMPORARY, StoreRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode

FIRST_MESSAGE = 2.0  # seconds of waiting without a message
PAIRS = 32  # of ports that a node tries, from the one after the master's


class ChosenMembers:
    """`nodes`: this node's settings, as if --master had listed the members. Call `on_time` at the `deadline`."""

    def __init__(self, node: MultiNode, nodes: NodesSpec) -> None:
        self._node, self._joined_at = node, nodes
        messages = ClusterMessages(node.console, nodes, float)
        heard = messages.report_wrong_token, messages.report_full_store
        self._store = StoreAccess(node.spec, nodes, node.environ, node.loop, node.console, *heard)
        self._held: list[socket.socket] = []  # the ports that this node offers
        names = os.urandom(8).hex(), printable(node.spec.job_id)
        self._choice = MemberChoice(self._ask, time.monotonic, *names, nodes.masters, self._choose_place())
        self._warned = self._closed = False
        self._wait()
        self._release()
        self.nodes = nodes._replace(
            masters=0, etcd=True, members=True, places=self._choice.places, spare_ports=(), serves=None
        )
        self._announce(self._choice.places)

    def _announce(self, members: tuple[Place, ...]) -> None:
        listed = ",".join(map(name_of, members))
        words = f"etcd runs on {len(members)} nodes; if {self._store.where} is lost, others join with --master {listed}"
        self._node.console.say("INFO", words)
        hosts = [place.host for place in members]
        crowded = next((host for host in hosts if hosts.count(host) > 1), "")
        if crowded:
            self._node.console.say("WARNING", f"{hosts.count(crowded)} of them are on {crowded}, and are lost with it")

    def _choose_place(self) -> Place | None:
        """The first two ports after the master's that are free; None if this node cannot run etcd."""
        try:
            find_program(self._node.environ)
        except NoEtcd:
            return None
        address, first = self._node.spec.address, self._store.places[0].port + 1
        for place in (Place(address, port) for port in range(first, min(first + 2 * PAIRS, LAST_PORT), 2)):
            if self._hold(place):
                return place
        return None

    def _hold(self, place: Place) -> bool:
        """Take both ports. They listen: a port that is only bound can be bound again by another node of this user."""
        family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
        try:
            for one in (place, peer_place(place)):
                self._held.append(socket.create_server(one, family=family))
        except OSError:
            self._release()
            return False
        return True

    def _release(self) -> None:
        for one in self._held:
            one.close()
        self._held = []

    def _ask(self, request: StoreRequest, then: OnAnswer) -> None:
        self._store.client.ask(request, then, time.monotonic())

    def _wait(self) -> None:
        """Ends when the list is known. A signal that stops flota is an error."""
        began, said, serve_at = time.monotonic(), "", 0.0
        self._node.loop.watch(self._node.signals.fd, self._on_signals)
        while not self._choice.places:
            now = time.monotonic()
            self._check_refusal()
            if now >= began + self._joined_at.join_timeout:
                raise self._too_late()
            if now >= began + FIRST_MESSAGE and said != self.status:
                said = self.status
                self._node.console.say("INFO", said)
            if self._choice.trouble and self._choice.deadline is not None and now >= serve_at:
                serve_at = now + self._store.serve_interval
                if not self._store.take_over():
                    self._store.check_port_owner()
            self.on_time(now)
            self._node.loop.turn(max(0.0, min(self.deadline or now + SERVE_RETRY, now + SERVE_RETRY) - now))

    @property
    def status(self) -> str:
        """What this node waits for."""
        if self._choice.trouble:
            return f"waiting for {self._choice.trouble}"
        who = f"{self._choice.offers} of {self._joined_at.masters} nodes that can run etcd have joined"
        return f"{who} at {self._store.where}"

    def _too_late(self) -> FlotaError:
        if self._choice.trouble:
            return NoAnswerInTime(self._choice.trouble)
        return TooFewMembers(self._choice.offers, self._joined_at.masters, limit_in_words(self._joined_at.join_timeout))

    def _check_refusal(self) -> None:
        refusal, other = self._choice.refusal, self._choice.other_job
        if refusal and refusal.code not in TEMPORARY:
            raise CannotJoin(refusal_in_words(refusal, self._store.where))
        if other is not None:
            own = printable(self._node.spec.job_id)
            raise OtherJobAtMaster(self._store.where, printable(other), own)

    def _on_signals(self) -> None:
        for number in self._node.signals.read():
            if number in self._node.stop_signals or number == self._node.preempt_signal:
                raise StoppedWhileJoining(signal_name(number), number)

    @property
    def deadline(self) -> float | None:
        times = () if self._closed else (self._store.deadline, self._choice.deadline)
        return min((time for time in times if time is not None), default=None)

    def on_time(self, now: float) -> None:
        if self._has_ended():
            self.close()  # the next job may use the same address, and must not find the list of this one
        if self._closed:
            return
        self._store.on_time(now)
        self._choice.on_time(now)
        if self._choice.other_list and not self._warned:
            self._warned = True
            words = f"{self._store.where} is used by another job now: nodes that join there do not join this one"
            self._node.console.say("WARNING", words)

    def _has_ended(self) -> bool:
        return "member" in vars(self._node) and self._node.follower.ending is not None

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._store.close()
