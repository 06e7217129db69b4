"""When this node starts its etcd, and how it replaces one that was lost.

Each listed host starts a member of a new cluster. etcd refuses that where the cluster already exists: its place belongs
to a member that is lost. A data directory is never used twice, so the node removes that member, adds itself as a
learner, and promotes itself to a voter when it has caught up. That the lost one is dead is certain: its ports are free.

A node on another host does the same for a member that has not answered for long, or for one that has left. The cluster
never has more members than the list. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from flota.etcd.member_flags import initial_cluster, name_of, peer_url
from flota.job.nodes import Place
from flota.store.client_connection import Lost
from flota.store.etcd_json import (
    EtcdMember,
    LeaseAnswer,
    LeaseGrant,
    MemberAdd,
    MemberList,
    MemberPromote,
    MemberRemove,
    MembersAnswer,
    Refusal,
    StoreAnswer,
    StoreRequest,
    TxnAnswer,
)

RETRY = 0.1  # seconds, doubled each time, between attempts to start or to join
LONGEST_RETRY = 5.0
PORTS_RETRY = 1.0  # seconds between looks at ports that are in use: their user may be the last job, or another node
PROMOTE_RETRY = 0.1
LEAVE_RETRY = 0.2
SPARE_CHECK = 10.0  # seconds between looks for a lost member
TURN = 30  # seconds for one node to replace a member
STABLE = 10.0  # seconds after which a member is not one that fails to start
MANY_STARTS = 5  # without success, until the user is informed


class MemberSteps(Protocol):
    """What a membership does to the world."""

    def launch(self, place: Place, cluster: Mapping[str, str], *, joins: bool) -> None: ...

    def are_ports_free(self, place: Place) -> bool: ...

    def ask(self, request: StoreRequest, then: Callable[[StoreAnswer | Refusal | Lost], None]) -> None: ...

    def probe(self, members: list[EtcdMember], then: Callable[[list[str]], object]) -> None:
        """Call `then` with the ids of those that do not answer."""

    def find_lost(self, silent: list[str]) -> str: ...

    def take_turn(self, lease: int) -> StoreRequest: ...

    @property
    def say(self) -> Callable[[str, str], object]: ...


class Membership:
    """Call `on_time` at the `deadline`, `on_exit` when etcd has exited, `note_answer` when the store answers."""

    def __init__(
        self,
        places: tuple[Place, ...],
        own: tuple[Place, ...],
        steps: MemberSteps,
        clock: Callable[[], float],
        *,
        tls: bool,
        spare: Place | None = None,
        interval: float = SPARE_CHECK,
    ) -> None:
        """`own`: the places of this machine; other nodes on it may have some of them. If there are none, it may run a
        member at `spare`, in the place of a lost one, for which it looks at each `interval`."""
        self.place: Place | None = None  # of the running etcd
        self.deadline: float | None = clock() + (0.0 if own else interval) if own or spare else None
        self._interval = interval
        own = own or ((spare,) if spare else ())
        self._is_spare = bool(spare)
        self._places, self._own, self._tls, self._steps, self._clock = places, own, tls, steps, clock
        self._exists = False  # the cluster has answered: it must not be started again
        self._asks = False  # whether the next attempt asks if it exists
        self._started_at = 0.0
        self._tries = 0
        self._waits = False  # for free ports
        self._turn_ends = 0.0  # until then no other node replaces a member
        self._learner = ""  # the id of this member while it has no vote
        self.leaving = False
        self.has_left = False

    def note_answer(self) -> None:
        self._exists = True

    def on_time(self, now: float) -> None:
        if self.deadline is None or now < self.deadline:
            return
        self.deadline = None
        if self._learner:
            self._ask(MemberPromote(self._learner), self._on_promoted, PROMOTE_RETRY)
        elif self.leaving:
            self._ask(MemberList(), self._on_list_to_leave, LEAVE_RETRY)
        elif self.place is None:
            self._start()

    def on_exit(self) -> None:
        ran = self._clock() - self._started_at
        self._tries = 0 if ran > STABLE else self._tries + 1
        if self.leaving:
            self.has_left = True
        elif ran > STABLE:
            self._steps.say("WARNING", "the etcd of this node has exited; starting another in its place")
        elif self._tries == MANY_STARTS:
            self._steps.say("WARNING", "the etcd of this node exits soon after its start; its log says why")
        self.place, self._learner, self._asks = None, "", True
        if not self.leaving:
            self._retry()

    def leave(self) -> None:
        """Have the others remove this member: a majority of the rest is then enough. `has_left` says when it is done.
        The job goes on without this node."""
        self.leaving, self._learner = True, ""
        self.has_left = self.place is None
        self.deadline = None if self.has_left else self._clock()

    # Starting.

    def _start(self) -> None:
        place = next(filter(self._steps.are_ports_free, self._own), None)
        if place is None:
            self.deadline = self._clock() + PORTS_RETRY
            if not self._waits and not self._is_spare:
                listed = ",".join(map(name_of, self._own))
                self._steps.say("INFO", f"the ports of {listed} are in use: this node waits with its etcd")
            self._waits = True
        elif self._exists or self._asks or self._is_spare:
            self._ask(MemberList(), lambda answer: self._on_list(answer, place))
        else:
            self._launch(place, initial_cluster(self._places, tls=self._tls), joins=False)

    def _launch(self, place: Place, cluster: Mapping[str, str], *, joins: bool) -> None:
        self.place, self._started_at = place, self._clock()
        self._steps.launch(place, cluster, joins=joins)

    def _on_list(self, answer: MembersAnswer, place: Place) -> None:
        """The cluster exists."""
        self._exists = True
        url = peer_url(place, tls=self._tls)
        own = next((one for one in answer.members if url in one.peer_urls), None)
        if own:
            self._replace(own.id, place)
        elif len(answer.members) < len(self._places):
            # etcd refuses to add a member until the others have been connected for 5 s.
            if place in self._places or self._clock() < self._turn_ends:
                self._replace("", place)
            else:
                self._take_turn("", place)
        else:
            self._is_spare = True
            self._steps.probe(answer.members, lambda silent: self._on_probed(silent, place))

    def _on_probed(self, silent: list[str], place: Place) -> None:
        self.deadline = self._clock() + self._interval
        if lost := self._steps.find_lost(silent):
            self.deadline = None
            self._take_turn(lost, place)

    def _take_turn(self, lost: str, place: Place) -> None:
        """Another node may want to replace the same member."""

        def on_answer(answer: TxnAnswer) -> None:
            if answer.succeeded:
                self._turn_ends = self._clock() + TURN / 2
                self._replace(lost, place)
            else:
                self.deadline = self._clock() + self._interval

        def on_granted(answer: LeaseAnswer) -> None:
            self._ask(self._steps.take_turn(int(answer.id)), on_answer, self._interval)

        self._ask(LeaseGrant(ttl=TURN), on_granted, self._interval)

    def _replace(self, lost: str, place: Place) -> None:
        add = MemberAdd([peer_url(place, tls=self._tls)], is_learner=True)
        if lost:
            self._ask(MemberRemove(lost), lambda _: self._ask(add, lambda added: self._on_added(added, place)))
        else:
            self._ask(add, lambda added: self._on_added(added, place))

    def _on_added(self, answer: MembersAnswer, place: Place) -> None:
        url = peer_url(place, tls=self._tls)
        own = next((one for one in answer.members if url in one.peer_urls), None)
        if own is None or self.leaving:
            self._retry()
            return
        names = {one.name or one.peer_urls[0]: one.peer_urls[0] for one in answer.members if one.peer_urls}
        cluster = {name: other for name, other in names.items() if other != url}
        self._learner = own.id
        self.deadline = self._clock() + PROMOTE_RETRY
        self._launch(place, {**cluster, name_of(place): url}, joins=True)

    def _on_promoted(self, _: MembersAnswer) -> None:
        self._learner = ""
        self._steps.say("INFO", "the etcd of this node has replaced a lost member")

    def _on_list_to_leave(self, answer: MembersAnswer) -> None:
        url = peer_url(self.place, tls=self._tls) if self.place else ""
        own = next((one for one in answer.members if url in one.peer_urls), None)
        if own:  # etcd refuses for its first 5 s, and while others are missing
            self._ask(MemberRemove(own.id), self._on_left, LEAVE_RETRY)
        else:
            self.has_left = True

    def _on_left(self, _: MembersAnswer) -> None:
        self.has_left = True

    # Requests.

    def _ask(self, request: StoreRequest, then: Callable[[Any], object], delay: float | None = None) -> None:
        """`delay`: until the next attempt if it fails."""

        def on_answer(answer: StoreAnswer | Refusal | Lost) -> None:
            if isinstance(answer, StoreAnswer):
                then(answer)
            elif self.place is not None and not self._learner and not self.leaving:
                pass  # it was started meanwhile
            else:
                self._asks = isinstance(answer, Refusal)
                self._retry(delay)

        self._steps.ask(request, on_answer)

    def _retry(self, delay: float | None = None) -> None:
        wait = min(RETRY * 2 ** min(self._tries, 10), LONGEST_RETRY) if delay is None else delay
        self.deadline = self._clock() + wait
