"""Simulated nodes: flota's own membership code with simulated workers, and the invariants that must hold."""

from __future__ import annotations

from types import SimpleNamespace

from msgspec.structs import replace

from flota.cluster.follower import (
    AnswerQuestion,
    Begin,
    Follower,
    Leave,
    NodeAction,
    Offer,
    Recall,
    Release,
)
from flota.cluster.job_state import JobState
from flota.cluster.lease_times import LEASE
from flota.cluster.member import Member
from flota.cluster.node_record import DEAD, NodeRecord, encode_record
from flota.cluster.questions import QUESTIONS
from flota.cluster.registration import Registration
from flota.cluster.terms import Terms
from flota.failures import roll_call
from flota.hangs.question import STACKS, PositionsAnswer
from flota.hangs.wait_sites import RankPosition
from flota.job.causes import EXITED
from flota.job.report import NO_STEP, FailedWorker, JobEnding
from flota.job.roster import NO_PORTS
from flota.job.survey_outcomes import Question
from flota.preemption.stop_step import NOW, StopAnswer
from flota.store.etcd_json import LeaseRevoke, Put
from flota.store.keys import Keys
from flota.supervise.events import StopRequested
from tests.rosters import ports_of
from tests.simulation.world import Client, Store, World

PACE = 10.0  # steps per second


class Cluster:
    """Nodes with one store, and invariants of the whole job."""

    def __init__(self, seed: int, terms: Terms, *, work: float = 20.0, etcd: bool = True) -> None:
        self.world = World(seed)
        self.store = Store(self.world)
        self.terms = terms._replace(absence=LEASE / 2 if etcd else 0.0)
        self.work = work
        self.etcd = etcd
        self.nodes: list[SimNode] = []
        self.rosters: dict[int, tuple[str, ...]] = {}
        self.crashed: set[str] = set()

    def add(self, host: str = "", rank: int = -1, terms: Terms | None = None, *, only_servers: bool = False) -> SimNode:
        name = f"{len(self.nodes):04x}"
        serves = not self.etcd and not self.nodes
        node = SimNode(self, name, host or f"host{len(self.nodes)}", terms or self.terms, rank, serves=serves)
        node.only_servers = only_servers
        self.nodes.append(node)
        return node

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds, lambda: all(node.over for node in self.nodes))

    def working(self) -> list[SimNode]:
        return [node for node in self.nodes if node.at_work]

    def endings(self) -> set[tuple[str, int]]:
        return {(node.ending.kind, node.ending.code) for node in self.nodes if node.ending}

    def note_roster(self, job_state: JobState) -> None:
        seats = tuple(row.node for row in job_state.seats)
        assert len(set(seats)) == len(seats), "a node has two seats"
        assert self.terms.least <= len(seats) <= self.terms.most
        assert self.rosters.setdefault(job_state.round, seats) == seats, f"two rosters for round {job_state.round}"


class SimNode:
    def __init__(self, cluster: Cluster, name: str, host: str, terms: Terms, rank: int, *, serves: bool) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.client = Client(cluster.store)
        self.name = name
        self.host = host
        self.serves = serves
        self.jump = 0.0
        self.was_cut = False
        self.over = False
        self.ending: JobEnding | None = None
        self.only_servers = False
        self.began_at = 0.0
        self.stopped_at = -1
        self.kind = "collective"
        self.rank = -1
        self.asked_for_stacks = 0
        self.known: PositionsAnswer | None = None
        self.stack_answers = self
        self.roll_call, self.roll_call_answer = Question(0, ""), roll_call.RollCallAnswer(0.0)
        self.failure_reported = False
        self.evidence = SimpleNamespace(reached=lambda: NO_STEP, last=None)
        self.agreed_step = NOW
        self.stopped_gracefully = True
        self.blind = False
        self.stacked_at = self.aborted_at = 0.0
        self.at_work: JobState | None = None
        self.begun: list[int] = []
        self.first_ports = 0
        self._torn: frozenset[int] = frozenset()
        self._give_up_at = 0.0
        self.workers = self.world.random.randint(1, 4)
        self._wake_at: float | None = None
        blank = NodeRecord(
            terms.job, host, f"10.0.0.{name}", NO_PORTS, terms.least, terms.most, terms.frameworks, rank, serves,
            spares=terms.spares,
        )  # fmt: skip
        follower = Follower(
            name,
            blank,
            join_timeout=terms.join_timeout,
            outage_limit=terms.join_timeout if cluster.etcd else 3.0,
        )
        registration = Registration(
            self.client, Keys("/job/"), name, int(LEASE), may_coordinate=cluster.etcd or serves, clock=self.clock
        )
        self.follower = follower
        self.member = Member(follower, registration, terms, "the store", self.clock())
        self._turn_after_each_call()
        self._step()

    @property
    def supervisor(self) -> SimpleNamespace:
        return SimpleNamespace(only_serves=self.only_servers)

    def clock(self) -> float:
        return self.world.now + self.jump

    def _turn_after_each_call(self) -> None:
        """Run the node after each callback of the client, as the real loop does."""
        ask, watch = self.client.ask, self.client.watch

        def then_step(call):
            def called(*words):
                call(*words)
                self._step()

            return called

        self.client.ask = lambda request, then, now: ask(request, then_step(then), now)
        self.client.watch = lambda request, heard, lease=0: watch(request, then_step(heard), lease)

    def _step(self) -> None:
        if self.over:
            return
        for action in self.member.advance(self.clock()):
            self._perform(action)
        deadline = self.member.deadline
        if deadline is not None and deadline != self._wake_at:
            self._wake_at = deadline
            self.world.at(deadline - self.jump + 1e-6, self._on_time)  # because of rounding: never early

    def _on_time(self) -> None:
        self._wake_at = None
        if not self.over:
            self.member.registration.reconcile()
            self._step()
            self._check_for_spinning()

    def _check_for_spinning(self) -> None:
        """A part that was just called for an expired deadline must not return the same deadline again."""
        parts = {
            "registration": self.member.registration.deadline,
            "follower": self.follower.deadline,
            "all": self.member.deadline,
        }
        spun = {name: time for name, time in parts.items() if time is not None and time <= self.clock()}
        assert not spun, f"{self.name} at {self.clock()}: {spun}"

    def _perform(self, action: NodeAction) -> None:
        if isinstance(action, Offer):
            self.first_ports += 100
            ports = ports_of(*range(self.first_ports, self.first_ports + self.workers + 3))
            self.follower.offered(ports, action.round)
            self.world.after(0, self._step)
        elif isinstance(action, Begin):
            self._begin(action.job_state)
        elif isinstance(action, Recall):
            self._stop_workers()
        elif isinstance(action, Release):
            assert self.only_servers, "released while it had work to do"
            self._stop_workers(well=True)
        elif isinstance(action, AnswerQuestion):
            QUESTIONS[action.question.kind].answer(self, action.question, action.workers_gone)
        elif isinstance(action, Leave):
            self._leave(action.ending)

    # What the functions that answer questions need of a node; these functions are flota's own.

    def reply(self, question: Question, body: object) -> None:
        self.follower.reply(question, body)
        self.world.after(0, self._step)

    def time_of_day(self) -> float:
        return self.clock()

    def progress(self) -> StopAnswer:
        return (
            StopAnswer(can_stop=True, step=self.how_far(), pace=PACE)
            if self.at_work and not self.only_servers
            else StopAnswer()
        )

    def step(self, event: StopRequested) -> None:
        assert event.gracefully
        self._stop_at(self.agreed_step)

    def _begin(self, job_state: JobState) -> None:
        assert not self.begun or job_state.round > self.begun[-1], "a round was started twice"
        self.cluster.note_roster(job_state)
        self.begun.append(job_state.round)
        self.at_work = job_state
        self.stopped_gracefully = False
        self.rank = job_state.seat_of(self.name)
        self.began_at = self.world.now
        if self.only_servers:
            self.follower.report_serving()
            self.world.after(0, self._step)
        else:
            self.world.after(self.cluster.work, lambda: self._finish_work(job_state))

    def _finish_work(self, job_state: JobState) -> None:
        """Workers succeed only together; without their peers they would hang."""
        peers = [node for node in self.cluster.nodes if job_state.seat_of(node.name) >= 0]
        if self.at_work is job_state and all(
            job_state.round in peer.begun and not peer.torn(job_state) for peer in peers
        ):
            self._sweep(job_state, well=True)

    def torn(self, job_state: JobState) -> bool:
        """Whether this node's workers of that round have not succeeded."""
        return job_state.round in self._torn

    def _stop_workers(self, *, well: bool = False) -> None:
        job_state = self.at_work
        if job_state:
            self.world.after(self.world.random.uniform(0.0, 0.5), lambda: self._sweep(job_state, well=well))

    def _sweep(self, job_state: JobState, *, well: bool) -> None:
        if self.at_work is not job_state or self.over:
            return
        if not well:
            self._torn = self._torn | {job_state.round}
        self.at_work = None
        self.stopped_gracefully = well
        self.follower.workers_ended(succeeded=well)
        self._step()

    def _leave(self, ending: JobEnding) -> None:
        assert self.at_work is None, "a node exited before its workers"
        self.ending = ending
        self._give_up_at = self.clock() + LEASE + 2
        self._close_when_gone()

    def _close_when_gone(self) -> None:
        if self.over:
            return
        if self.member.is_gone(self.clock()) or self.clock() >= self._give_up_at:
            self._close()
        else:
            self.world.after(0.05, self._close_when_gone)

    def _close(self) -> None:
        self.over = True
        self.client.close()
        if self.serves:
            self.cluster.store.dead = True

    def how_far(self) -> int:
        """The current step; all workers have the same pace."""
        return int((self.world.now - self.began_at) * PACE)

    def _stop_at(self, step: int) -> None:
        job_state = self.at_work
        assert job_state and self.how_far() <= step, "asked to stop at a step that its workers have passed"
        self.stopped_at = step
        self.world.after((step - self.how_far()) / PACE, lambda: self._stop_gracefully(job_state))

    def _stop_gracefully(self, job_state: JobState) -> None:
        if self.at_work is job_state and not self.over:
            self.at_work = None
            self.stopped_gracefully = True
            self.follower.workers_ended(succeeded=False)
            self._step()

    def stand(self, seconds: float = 30.0, kind: str = "collective") -> None:
        """Its workers make no progress for so many seconds, waiting in this way; 0: they continue."""
        if self.over or not self.at_work:
            return
        self.kind = kind
        self.follower.report_idle(seconds, seconds)
        job_state = self.follower.job_state
        if not seconds and job_state.question and job_state.asks(STACKS):
            self.follower.reply(job_state.question, PositionsAnswer(makes_progress=True))
        self._step()

    def answer_hang(self, question: Question, *, workers_gone: bool) -> None:
        """Answer what its ranks wait on, after a delay, unless the question has been withdrawn by then."""
        if question.argument and self.blind and not workers_gone:
            self.aborted_at = self.world.now
            self._reply_stacks(question)
        elif question.argument and self.known:
            self.follower.reply(question, self.known)
            self.world.after(0, self._step)
        elif not question.argument:
            self.world.after(self.world.random.uniform(0.0, 1.0), lambda: self._look(question))

    def _look(self, question: Question) -> None:
        job_state = self.follower.job_state
        if self.over or not job_state or job_state.question != question:
            return
        self.asked_for_stacks += 1
        if self.blind:
            self.reply(question, PositionsAnswer(blind=True))
        else:
            self._reply_stacks(question)

    def _reply_stacks(self, question: Question) -> None:
        kind = self.kind if self.at_work else "ended"
        self.stacked_at = self.world.now
        position = RankPosition(self.rank, kind, f"{kind} at x.py:1", "trainer", self.host, 0, 0, 1, "log", 1.0)
        self.known = PositionsAnswer((position,))
        self.reply(question, self.known)

    def preempt(self) -> None:
        """SIGTERM to a node whose workers all check whether to stop."""
        if not self.over:
            self.follower.stop(15, self.clock(), can_stop=True)
            self._step()

    # Faults.

    def fail(self, code: int = 3) -> None:
        if self.at_work:
            rank = self.at_work.seat_of(self.name)
            fault = FailedWorker(rank, 0, self.name, 1, code, EXITED, f"exit code {code}", 1.0, "log")
            self.follower.report_failures((fault,))
            self._step()
            self._stop_workers()

    def cut(self, seconds: float) -> None:
        self.was_cut = True
        self.client.cut = True
        self.world.after(seconds, self.client.heal)

    def crash(self, *, shepherd: bool) -> None:
        lease, record = self.member.registration.lease, self.follower.record
        self.cluster.crashed.add(self.name)
        self.at_work = None
        self._torn = frozenset(self.begun)
        self._close()
        if shepherd and lease and not self.cluster.store.dead:
            self.world.after(0.01, lambda: self._revoke_lease(lease, record))

    def _revoke_lease(self, lease: int, record: NodeRecord) -> None:
        final_put = Put(
            key=Keys("/job/").nodes + self.name.encode(), value=encode_record(replace(record, state=DEAD)), lease=lease
        )
        self.cluster.store.serve(final_put)
        self.cluster.store.serve(LeaseRevoke(id=lease))

    def terminate(self, signal: int = 15) -> None:
        if self.over:
            return
        self.follower.stop(signal, self.clock())
        self._step()
        self._stop_workers()
