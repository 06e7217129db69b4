"""With --masters: waits until it is known which nodes run etcd, and then keeps the list for nodes that join later."""

from __future__ import annotations

import os
import time
from _socket import socket

from flota.cluster.member import refusal_in_words
from flota.cluster.member_choice import MemberChoice
from flota.cluster.messages import ClusterMessages
from flota.cluster.store_access import StoreAccess
from flota.errors import CannotJoin, FlotaError, NoEtcd, StoppedWhileJoining, TooFewMembers
from flota.etcd.member_flags import name_of, peer_place
from flota.etcd.program import find_program
from flota.host.ports import hold_exactly, release
from flota.humanize import limit_in_words, signal_name
from flota.job.nodes import NodesSpec, Place
from flota.run.node_watch import NodeWatch
from flota.store.client import OnAnswer
from flota.store.etcd_json import TEMPORARY, StoreRequest

FIRST_MESSAGE = 2.0  # seconds of waiting without a message
SERVE_RETRY = 1.0  # seconds between attempts to serve the master while no node does
PAIRS = 32  # of ports that a node tries, from the one after the master's


class ChosenMembers:
    """`nodes`: this node's settings, as if --master had listed the members. Call `on_time` at the `deadline`."""

    def __init__(self, node: NodeWatch, nodes: NodesSpec) -> None:
        self._node, self._joined_at = node, nodes
        messages = ClusterMessages(node.console, nodes, float)
        heard = messages.report_wrong_token, messages.report_full_store
        self._store = StoreAccess(node.spec, nodes, node.environ, node.loop, node.console, *heard)
        self._held: list[socket] = []  # the ports that this node offers
        self._choice = MemberChoice(self._ask, time.monotonic, os.urandom(8).hex(), nodes.masters, self._choose_place())
        self._warned = False
        self._wait()
        release(self._held)
        members = self._choice.places
        self.nodes = nodes._replace(masters=0, etcd=True, members=True, places=members, spare_ports=(), serves=None)
        listed = ",".join(map(name_of, members))
        words = f"etcd runs on {len(members)} nodes; if {self._store.where} is lost, others join with --master {listed}"
        node.console.say("INFO", words)

    def _choose_place(self) -> Place | None:
        """The first two ports after the master's that are free; None if this node cannot run etcd."""
        try:
            find_program(self._node.environ)
        except NoEtcd:
            return None
        address, first = self._node.spec.address, self._store.places[0].port + 1
        for place in (Place(address, port) for port in range(first, first + 2 * PAIRS, 2)):
            try:
                self._held = hold_exactly([place.port, peer_place(place).port], address)
            except (FlotaError, OverflowError):
                continue
            return place
        return None

    def _ask(self, request: StoreRequest, then: OnAnswer) -> None:
        self._store.client.ask(request, then, time.monotonic())

    def _wait(self) -> None:
        """Ends when the list is known. A signal that stops flota is an error."""
        began, said, serve_at = time.monotonic(), -1, 0.0
        self._node.loop.watch(self._node.signals.fd, self._on_signals)
        while not self._choice.places:
            now = time.monotonic()
            self._check_refusal()
            if now >= began + self._joined_at.join_timeout:
                limit = limit_in_words(self._joined_at.join_timeout)
                raise TooFewMembers(self._choice.offers, self._joined_at.masters, limit)
            if now >= began + FIRST_MESSAGE and said != self._choice.offers:
                said = self._choice.offers
                who = f"{said} of {self._joined_at.masters} nodes that can run etcd have joined"
                trouble = self._choice.trouble
                self._node.console.say("INFO", f"{who} at {self._store.where}{f' ({trouble})' if trouble else ''}")
            if self._choice.trouble and self._choice.deadline is not None and now >= serve_at:
                serve_at = now + SERVE_RETRY
                self._store.take_over()
            self.on_time(now)
            self._node.loop.turn(max(0.0, min(self.deadline or now + SERVE_RETRY, now + SERVE_RETRY) - now))

    def _check_refusal(self) -> None:
        refusal = self._choice.refusal
        if refusal and refusal.code not in TEMPORARY:
            raise CannotJoin(refusal_in_words(refusal, self._store.where))

    def _on_signals(self) -> None:
        for number in self._node.signals.read():
            if number in self._node.stop_signals or number == self._node.preempt_signal:
                raise StoppedWhileJoining(signal_name(number), number)

    @property
    def deadline(self) -> float | None:
        times = (self._store.deadline, self._choice.deadline)
        return min((time for time in times if time is not None), default=None)

    def on_time(self, now: float) -> None:
        self._store.on_time(now)
        self._choice.on_time(now)
        if self._choice.other_list and not self._warned:
            self._warned = True
            words = f"{self._store.where} has another list of etcd members: nodes that join there join another job"
            self._node.console.say("WARNING", words)

    def close(self) -> None:
        self._store.close()
