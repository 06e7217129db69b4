"""Replays the stories in cluster/*.txt: a coordinator and the nodes of a job. A story is a line of words, a line of
dashes, and what follows.

pytest tests/scenarios --rewrite    records what they do now; review it in the diff

Job states and node records arrive at once, and what each node does without deciding anything is done by the stage and
not shown: it takes ports, answers a roll call, tells how far its workers are. Everything up to `Node` knows how the
coordinator and the nodes are written today. The stories do not, so they can judge another way of writing them.
"""

from __future__ import annotations

import signal
from typing import get_args

import pytest
from msgspec.structs import replace

from flota.cluster import follower
from flota.cluster.coordinator import Coordinator
from flota.cluster.differences import NodeFacts
from flota.cluster.follower import Follower
from flota.cluster.job_state import DECIDING, ENDED, GATHERING, PHASES, JobState, decode_state, encode_state
from flota.cluster.lease_times import ETCD_LEASE, LEASE
from flota.cluster.node_record import (
    DEAD,
    NodeRecord,
    Present,
    encode_record,
)
from flota.cluster.questions import STACKS, read_record
from flota.cluster.terms import Terms
from flota.failures import roll_call
from flota.hangs.question import POSITIONS, PositionsAnswer
from flota.hangs.wait_sites import RankPosition
from flota.job.causes import EXITED, LEFT_EARLY, SIGNALLED, is_hang
from flota.job.nodes import ONE_NODE, WHOLE_JOB
from flota.job.report import FailedWorker
from flota.job.roles import label
from flota.job.roster import NO_PORTS
from flota.job.spec import RestartPolicy
from flota.job.survey_outcomes import Question
from flota.preemption.question import StopAnswer
from flota.preemption.stop_step import NOW
from flota.stragglers.detector import StepTime
from flota.stragglers.question import StepsAnswer
from tests.rosters import ports_of
from tests.scenarios.stories import check, replay, stories_about

STORIES = stories_about("cluster")
BLANK = JobState(GATHERING)  # before anything has been decided: nobody is told
EPOCH = 1_000_000.0  # makes a time of day of the story's time
PLACES = {
    "collective": "in all_reduce at train.py:88",
    "waits": "waiting on a socket in recv at train.py:90",
    "elsewhere": "in next(loader) at data.py:41",
    "halted": "stopped by a signal",
    "ended": "exited with code 0",
}


# How job states and actions are called in the stories.


def describe_state(state: JobState, before: JobState) -> list[str]:
    """What is new in a job state: a line a fact."""
    lines = [f"{one.host} refused: {one.why}" for node, one in state.refused.items() if node not in before.refused]
    if (state.phase, state.round, decisive(state)) != (before.phase, before.round, decisive(before)):
        lines.append(describe_phase(state, before))
    if state.join_status and state.join_status != before.join_status:
        lines.append(state.join_status)
    lines += [f"warns: {problem}" for problem in state.problems if problem not in before.problems]
    if state.slow != before.slow:
        slow = [f"{label(row.role, row.rank)} on {row.host} ({row.factor:g} times)" for row in state.slow]
        lines.append(f"slow ranks: {', '.join(slow) or 'none'}")
    if state.spares != before.spares:
        lines.append(f"spares: {' '.join(row.host for row in state.spares) or 'none'}")
    if state.question != before.question and state.asks(POSITIONS):
        lines.append("asks nodes where their ranks are, for flota stack")
    if state.results != before.results:
        lines.append(f"tells where ranks are: {'; '.join(state.results[POSITIONS].lines)}")
    return [f"job: {line}" for line in lines]


def decisive(state: JobState) -> Question | None:
    return state.question if state.phase == DECIDING else None


def describe_phase(state: JobState, before: JobState) -> str:
    question = state.question.kind if state.phase == DECIDING else ""
    argument = state.question.argument if question else ""
    match state.phase, question:
        case "gathering", _:
            words = describe_gathering(state)
        case "running", _ if before.asks(STACKS):
            words = "running again, as a node makes progress"
        case "running", _:
            words = f"running round {state.round} attempt {state.attempt}: {' '.join(row.host for row in state.seats)}"
        case _, "preemption" if not argument:
            words = f"asks all nodes how far they are ({state.why})"
        case _, "preemption":
            words = "stop now" if int(argument) == NOW else f"stop at step {argument}"
        case _, "stacks" if argument:
            words = "lets nodes abort their workers for stacks"
        case _, "stacks":
            words = "asks all nodes for stacks"
        case _, "roll call":
            words = f"calls the roll after {describe_faults(state.failures)} {what_befell(state.failures)}"
        case _:
            ending = state.ending
            why = "; ".join(filter(None, (describe_faults(ending.failures), ending.reason)))
            words = f"ended {ending.kind} {ending.code}" + (f" ({why})" if why else "")
    return words


def describe_gathering(state: JobState) -> str:
    why = state.why or (f"{describe_faults(state.failures)} {what_befell(state.failures)}" if state.failures else "")
    return "".join(
        [
            f"gathering round {state.round} attempt {state.attempt}",
            f" ({why})" if why else "",
            f", not before {state.delay:g} s have passed" if state.delay else "",
            f", without {' '.join(state.left)}" if state.left else "",
        ]
    )


def what_befell(faults: tuple[FailedWorker, ...]) -> str:
    if any(fault.cause == LEFT_EARLY for fault in faults):
        return "exited too early"
    return "hung" if any(is_hang(fault.code, fault.cause) for fault in faults) else "failed"


def describe_faults(faults: tuple[FailedWorker, ...]) -> str:
    return ", ".join(
        f"{label(fault.role, fault.rank)} on {fault.node}" if fault.rank >= 0 else "no rank in particular"
        for fault in faults
    )


SHOWN = {
    follower.Recall: "stop workers",
    follower.Release: "let servers end",
    follower.ResumeRound: "go on",
}


def describe_action(action: follower.NodeAction, node: Node) -> str:
    """Empty: what the stage does by itself."""
    match action:
        case follower.Begin(job_state, seat):
            return f"begin round {job_state.round} as node {seat}"
        case follower.AnswerQuestion(Question(_, "preemption", step), gone) if step and not gone:
            return "save and stop now" if int(step) == NOW else f"save and stop at step {step}"
        case follower.AnswerQuestion(Question(_, "stacks", argument), gone) if argument:
            return "abort workers for stacks" if node.is_blind and not gone else ""
        case follower.AnswerQuestion(Question(_, "stacks", _)):
            return "take stacks" if node.stuck is None else ""
        case follower.AnswerQuestion(Question(_, "positions", _), False):
            return "look where ranks are"
        case follower.Leave(ending):
            return f"leave with {ending.code}" + (f" ({ending.reason})" if ending.reason else "")
    return SHOWN.get(type(action), "")


class Node:
    """One node: its part in the job, its record as the store has it, and workers that the story speaks for."""

    def __init__(
        self, name: str, terms: Terms, blank: NodeRecord, workers: int, outage_limit: float, clock: float, now: float
    ) -> None:
        self.name, self.host = name, blank.host
        self.workers = workers
        self.epoch = EPOCH + clock
        self.part = Follower(name, blank, join_timeout=terms.join_timeout, outage_limit=outage_limit)
        self.part.note_joined(now + self.epoch)
        self.hears = self.is_there = True
        self.silent_since: float | None = None
        self.only_servers = bool(blank.roles) and not any(
            count for number, count in enumerate(blank.workers_by_role) if number not in terms.serving
        )
        self.has_servers = any(blank.workers_by_role[number] for number in terms.serving) if blank.roles else False
        self.progress = StopAnswer(can_stop=False, step=NOW)
        self.knowledge: tuple[FailedWorker, ...] = ()
        self.roll_call_answer = roll_call.RollCallAnswer(0.0)
        self.roll_call_id = 0  # the question that it answers
        self.first_rank = 0
        self.actions: set[type] = set()
        self.asked: Question | None = None  # where its ranks are
        self.stuck: PositionsAnswer | None = None  # what it has said of a hang
        self.is_blind = self.gracefully = False
        self.is_asked_to_stop = self.is_released = False

    def hear(self, state: JobState) -> None:
        self.part.receive_state(state)

    def advance(self, now: float) -> list[str]:
        """What it does now, until nothing follows from anything any more."""
        lines: list[str] = []
        while actions := self.part.advance(now, self.silent_since, "the store"):
            for action in actions:
                self.actions.add(type(action))
                lines += [f"{self.host}: {words}"] if (words := describe_action(action, self)) else []
                self._perform(action, now)
        return lines

    def _perform(self, action: follower.NodeAction, now: float) -> None:
        match action:
            case follower.Offer(round_number):
                ports = ports_of(*range(1000 + round_number, 1000 + round_number + self.workers + 3))
                self.part.offered(ports, round_number)
            case follower.Begin(job_state, seat):
                self.first_rank = sum(row.workers for row in job_state.seats[:seat])
                self.is_asked_to_stop = self.is_blind = False
                self.knowledge, self.stuck, self.gracefully = (), None, False
                if self.only_servers:
                    self.part.report_serving()
            case follower.Recall():
                self.is_asked_to_stop = True
            case follower.Release():
                self.is_asked_to_stop = self.is_released = True
            case follower.ResumeRound():
                self.stuck, self.is_blind = None, False
            case follower.AnswerQuestion(question, gone):
                getattr(self, f"_answer_{question.kind.replace(' ', '_')}")(question, now, gone=gone)

    def _answer_roll_call(self, question: Question, now: float, *, gone: bool) -> None:
        if self.roll_call_id != question.id:
            self.roll_call_id = question.id
            self.roll_call_answer = roll_call.RollCallAnswer(now + self.epoch)
        if gone:
            self.roll_call_answer = self.roll_call_answer._replace(failures=self.knowledge, swept=True)
        self.part.reply(question, self.roll_call_answer)

    def _answer_preemption(self, question: Question, _now: float, *, gone: bool) -> None:
        if not question.argument:
            self.part.reply(question, StopAnswer() if self.only_servers else self.progress)
        elif gone or self.only_servers:
            done = self.gracefully or self.only_servers or self.part.record.state == "done"
            self.part.reply(question, StopAnswer(stopped="gracefully" if done else "otherwise"))

    def _answer_stacks(self, question: Question, _now: float, *, gone: bool) -> None:
        self.asked = question
        if question.argument and self.is_blind:
            self.is_asked_to_stop = self.is_asked_to_stop or not gone
        elif question.argument and self.stuck:
            self.part.reply(question, self.stuck)

    def _answer_positions(self, question: Question, _now: float, *, gone: bool) -> None:
        self.asked = None if gone else question

    def _answer_steps(self, question: Question, _now: float, *, gone: bool) -> None:
        self.part.reply(question, StepsAnswer())

    @property
    def record(self) -> NodeRecord | None:
        """What it has to say; None when it has nothing to say, or goes."""
        return self.part.record if not self.part.ending else None

    @property
    def has_ended(self) -> bool:
        return self.part.ending is not None

    @property
    def deadline(self) -> float | None:
        return self.part.deadline

    def fail(self, now: float, rank: int, code: int, **facts) -> None:
        self.part.report_failures((self._fault(now, rank, code, **facts),))

    def knows(self, now: float, rank: int, code: int) -> None:
        """Found when its workers are gone: one of those that were stopped had failed before."""
        self.knowledge = (self._fault(now, rank, code, asked_to_stop=True),)

    def _fault(self, now: float, rank: int, code: int, cause: str = "", ran: float = 1.0, **facts) -> FailedWorker:
        cause = cause or (EXITED if code >= 0 else SIGNALLED)
        local = max(0, rank - self.first_rank)
        at = now + self.epoch
        attempt = self.part.job_state.attempt
        return FailedWorker(
            rank, local, self.host, 1, code, cause, "it ended", ran, "log", at=at, attempt=attempt, **facts
        )

    def done(self) -> None:
        if self.has_servers:
            self.part.report_serving()
        else:
            self.part.workers_ended(succeeded=True)

    def swept(self, *, gracefully: bool = False) -> None:
        self.is_asked_to_stop = False
        self.gracefully = gracefully
        self.part.workers_ended(succeeded=self.is_released)

    def cannot_start(self, reason: str) -> None:
        self.part.workers_ended(succeeded=False)
        self.part.give_up(f"{self.host}: {reason}")

    def stop(self, number: int, now: float, *, scope: str = ONE_NODE, timed_out: str = "") -> None:
        asks = number == signal.SIGTERM and self.part.working
        can_stop = asks and self.progress.can_stop
        self.part.stop(number, now, can_stop=can_stop, scope=scope, timed_out=timed_out)

    def idle(self, seconds: float, timeout: float) -> None:
        self.part.report_idle(seconds, timeout)
        state = self.part.job_state
        if not seconds and state and state.asks(STACKS):
            self.part.reply(state.question, PositionsAnswer(makes_progress=True))

    def steps_take(self, seconds: dict[int, float]) -> None:
        self.part.report_steps(tuple(StepTime(rank, took) for rank, took in seconds.items()))

    def request_restart(self) -> bool:
        return self.part.request_restart()

    def ask(self) -> bool:
        return self.part.request(POSITIONS) is not None

    def blind(self) -> None:
        self.is_blind = True
        self.part.reply(self.asked, PositionsAnswer(blind=True))

    def seen(self, kind: str, rank: int | None) -> None:
        """Where its ranks are: all in this way, or one, and the others in a collective."""
        kinds = {own: kind if rank in (None, own) else "collective" for own in self.ranks}
        rows = tuple(
            RankPosition(own, how, PLACES[how], "trainer", self.host, 0, own - self.first_rank, 1, "log", 1.0)
            for own, how in kinds.items()
        )
        answer = PositionsAnswer(rows)
        if self.asked.kind == STACKS:
            self.stuck = answer
        self.part.reply(self.asked, answer)

    @property
    def ranks(self) -> range:
        return range(self.first_rank, self.first_rank + self.workers)


def make_terms(nodes, restarts, level, elastic, etcd, roles, **seconds) -> Terms:
    least, most = (int(number) for number in (elastic or f"{nodes}:{nodes}").split(":"))
    limits = {name: int(seconds.pop(name)) for name in ("crash_loop",) if name in seconds}
    policy = RestartPolicy(
        int(restarts or 3), enabled=restarts is not None or int(level) >= 0, elastic_level=int(level), **limits
    )
    names = tuple(roles.split(",")) if roles else ()
    return Terms(
        "job",
        least,
        most,
        ("torch",),
        policy,
        lease=ETCD_LEASE if etcd else LEASE,
        absence=ETCD_LEASE / 2 if etcd else 0.0,
        roles=names,
        serving=tuple(number for number, name in enumerate(names) if name == "server"),
        **{name: float(value) for name, value in seconds.items()},
    )


def make_record(terms: Terms, host: str, rank: int, counts: tuple[int, ...], *, serves: bool, **other) -> NodeRecord:
    """What a node says of itself; `other`: where its command line is another than the job's."""
    record = NodeRecord(
        terms.job, host, "10.0.0.1", NO_PORTS, terms.least, terms.most, terms.frameworks, rank, serves,
        roles=terms.roles, workers_by_role=counts if terms.roles else (), spares=terms.spares,
    )  # fmt: skip
    return replace(record, **other)


def make_coordinator(terms: Terms, node: Node, now: float) -> Coordinator:
    """As this node starts it, from the last job state that it has heard."""
    return Coordinator(terms, node.part.job_state, now, node.name, node.epoch)


def as_dead(record: NodeRecord) -> NodeRecord:
    """As a shepherd writes it."""
    return replace(record, state=DEAD)


def is_worth_publishing(state: JobState, published: JobState) -> bool:
    return state not in (published, BLANK)


def has_ended(state: JobState) -> bool:
    return state.phase == ENDED


# From here on all that is known of them: the coordinator decides and has a deadline, records and states can be sent.


class ClusterStage:
    """The nodes of a job, its coordinator, the store between them, and a clock that the story moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.nodes: dict[str, Node] = {}
        self.coordinator: Coordinator | None = None
        self.own = ""  # the coordinator's node
        self.state = BLANK
        self.phases = {BLANK.phase}
        self.records: dict[str, Present] = {}
        self.revision = 0
        self.news = False
        self.steady_from: float | None = None  # after a gap in the store's answers

    def play(self, line: str) -> str:
        verb, *words = line.split()
        facts = dict(word.split("=") for word in words)
        hosts = facts.pop("host", "").split(",")
        if hosts == ["all"]:
            hosts = [host for host, node in self.nodes.items() if node.is_asked_to_stop]
        assert hosts, "no node was asked to stop its workers"
        lines: list[str] = []
        for host in hosts:
            lines += getattr(self, f"do_{verb}")(*([host] if host else []), **facts) or self._settle()
        return "\n".join([*lines, *self._deadlines()]) or "nothing happens"

    # The job, and time.

    @property
    def actions(self) -> set[type]:
        return {action for node in self.nodes.values() for action in node.actions}

    def do_job(
        self,
        nodes="2",
        restarts=None,
        level="-1",
        elastic="",
        etcd="no",
        roles="",
        strict="no",
        spares="0",
        evict="0",
        **seconds,
    ):
        self.etcd = etcd == "yes"
        self.terms = make_terms(nodes, restarts, level, elastic, self.etcd, roles, **seconds)
        self.terms = self.terms._replace(strict=strict == "yes", spares=int(spares), evict=float(evict))

    def do_pass(self, seconds):
        """Time passes, from one deadline to the next."""
        end = self.now + float(seconds)
        lines: list[str] = []
        while (wake := min((time for time in self._times() if time <= end), default=end)) < end:
            assert wake > self.now, "a deadline that has passed is named again"
            self.now = wake
            happened = self._settle()
            lines += [f"at {self.now:g}s", *happened] if happened else []
        self.now = end
        happened = self._settle()
        return [*lines, f"at {self.now:g}s", *happened] if lines and happened else lines + happened

    def do_takeover(self, host):
        """This node becomes the coordinator, and knows the last job state that it has heard."""
        node = self.nodes[host]
        self.own = node.name
        self.coordinator = make_coordinator(self.terms, node, self.now)
        self.news = True

    def do_gap(self, seconds):
        """The store has not answered for a while: a record that is not there means nothing for some seconds."""
        self.steady_from = self.now + float(seconds)

    # Coming and going.

    def do_warm(self, host):
        """Its imports are done."""
        self.nodes[host].part.report_warming(warming=False)
        return self._settle()

    def do_join(
        self, host, rank="-1", workers="1", servers="0", clock="0", again="no", script="", warming="no", **other
    ):
        """`warming`: its interpreters still import. `again`: as a new process, while the store still has the record of the one before."""
        other |= {"facts": NodeFacts(script=script)} if script else {}
        other |= {"warming": True} if warming == "yes" else {}
        if again == "yes":
            self.nodes[f"{host}.old"] = self.nodes.pop(host)
            self.nodes[f"{host}.old"].is_there = False
        serves = not self.etcd and not self.nodes
        blank = make_record(self.terms, host, int(rank), (int(servers), int(workers)), serves=serves, **other)
        outage_limit = 60.0 if self.etcd else 0.6 * LEASE
        name = f"{host}.new" if again == "yes" else host
        count = int(workers) + int(servers)
        self.nodes[host] = node = Node(name, self.terms, blank, count, outage_limit, float(clock), self.now)
        lines = node.advance(self.now)
        if len(self.nodes) == 1:
            self.do_takeover(host)
        return lines + self._settle()

    def do_vanish(self, host):
        """Its lease has ended, and with it its record. It hears nothing either; the coordinator of its own is gone."""
        self.nodes[host].is_there = False
        self._remove(self.nodes[host])

    def do_back(self, host):
        """It puts its record back."""
        self.nodes[host].is_there = True

    def do_dead(self, host):
        """Its shepherd has said so, and the record says it from now on."""
        node = self.nodes[host]
        node.is_there = False
        self._write(node, as_dead(node.record))
        self._loses_coordinator(node)

    def do_miss(self, host):
        self.nodes[host].hears = False

    def do_hear(self, host):
        self.nodes[host].hears = True

    def do_cut(self, host):
        """It knows that the store does not answer it any more."""
        self.nodes[host].hears = False
        self.nodes[host].silent_since = self.now
        self._loses_coordinator(self.nodes[host])

    # What happens to workers.

    def do_fail(self, host, rank, code, secondary="no", step=None, ago="0", **facts):
        number = int(code) if code.lstrip("-").isdecimal() else -signal.Signals[code]
        facts |= {"is_secondary": secondary == "yes"} | ({"step": int(step)} if step else {})
        if "ran" in facts:
            facts["ran"] = float(facts["ran"])
        self.nodes[host].fail(self.now - float(ago), int(rank), number, **facts)

    def do_knows(self, host, rank, code):
        self.nodes[host].knows(self.now, int(rank), -signal.Signals[code] if code.startswith("SIG") else int(code))

    def do_done(self, host):
        self.nodes[host].done()

    def do_swept(self, host):
        """Its workers are gone."""
        self.nodes[host].swept()

    def do_stopped(self, host, gracefully):
        """Its workers were asked to save and stop, and are gone."""
        self.nodes[host].swept(gracefully=gracefully == "yes")

    def do_cannot_start(self, host, reason):
        self.nodes[host].cannot_start(reason.replace("_", " "))

    def do_progress(self, host, can_stop="yes", step="-1", pace="0"):
        """What its workers will tell when they are asked how far they are."""
        self.nodes[host].progress = StopAnswer(can_stop == "yes", int(step), float(pace))

    def do_signal(self, host, name, scope=ONE_NODE):
        """`scope`: as in job/nodes.py."""
        self.nodes[host].stop(signal.Signals[name], self.now, scope=scope)

    def do_timeout(self, host, limit):
        """--timeout has passed on this node."""
        self.nodes[host].stop(signal.SIGTERM, self.now, scope=WHOLE_JOB, timed_out=limit)

    def do_unreached(self, host, where):
        self.nodes[host].part.report_unreached(where)

    def do_idle(self, host, seconds, timeout="30"):
        self.nodes[host].idle(float(seconds), float(timeout))

    def do_moves(self, host):
        self.nodes[host].idle(0.0, 30.0)

    def do_steps(self, host, seconds):
        """How long a step takes its ranks."""
        node = self.nodes[host]
        node.steps_take(dict.fromkeys(node.ranks, float(seconds)))

    def do_ask(self, host):
        """Somebody runs flota stack there."""
        return [] if self.nodes[host].ask() else [f"{host}: no stacks can be taken"]

    def do_restart(self, host):
        """A user runs flota restart there."""
        return [] if self.nodes[host].request_restart() else [f"{host}: the job is not running"]

    def do_blind(self, host):
        """It cannot read the stacks of its workers unless it aborts them."""
        self.nodes[host].blind()

    def do_seen(self, host, kind, rank=None):
        self.nodes[host].seen(kind, int(rank) if rank else None)

    # Between them.

    def _settle(self) -> list[str]:
        """Until nothing follows from anything any more."""
        lines: list[str] = []
        changed = True
        while changed:
            changed = False
            for node in self.nodes.values():
                if node.is_there:
                    lines += self._turn(node)
            state = self._decide()
            if state:
                lines += describe_state(state, self.state)
                self.phases.add(state.phase)
                self.state, changed = state, True
        return lines

    def _turn(self, node: Node) -> list[str]:
        if node.hears and self.state != BLANK:
            node.hear(self.state)
        lines = node.advance(self.now)
        if node.has_ended:
            self._remove(node)
        elif node.record and node.silent_since is None:
            self._write(node, node.record)
        return lines

    def _decide(self) -> JobState | None:
        """The next job state, if there is one."""
        is_due = any(time <= self.now for time in self._coordinator_times())
        if not self.coordinator or not (self.news or is_due):
            return None
        self.news = False
        if self.steady_from is not None and self.now >= self.steady_from:
            self.steady_from = None
        present = sorted(self.records.values(), key=lambda one: one.created)
        state = self.coordinator.decide(present, self.now, trusting=self.steady_from is None)
        return decode_state(encode_state(state)) if is_worth_publishing(state, self.state) else None

    def _write(self, node: Node, record: NodeRecord) -> None:
        sent = read_record(node.name, 0, encode_record(record), 0)
        assert sent is not None, "no sound record"
        before = self.records.get(node.name)
        if before is None or before.record != sent.record:
            self.revision += 1
            created = before.created if before else self.revision
            self.records[node.name] = replace(sent, created=created, modified=self.revision)
            self.news = True

    def _remove(self, node: Node) -> None:
        self.news = self.records.pop(node.name, None) is not None or self.news
        self._loses_coordinator(node)

    def _loses_coordinator(self, node: Node) -> None:
        """The coordinator stays until all have heard how the job ended."""
        if self.own == node.name and not has_ended(self.state):
            self.coordinator = None

    def _times(self) -> list[float]:
        own = [node.deadline for node in self.nodes.values() if node.is_there]
        return [*self._coordinator_times(), *(time for time in own if time is not None)]

    def _coordinator_times(self) -> list[float]:
        if not self.coordinator:
            return []
        return [time for time in (self.coordinator.deadline, self.steady_from) if time is not None]

    def _deadlines(self) -> list[str]:
        lines = [
            f"{node.host} until {node.deadline:g}s" for node in self.nodes.values() if node.is_there and node.deadline
        ]
        if self.coordinator is None:
            return [*lines, "no coordinator"] if self.nodes else lines
        times = self._coordinator_times()
        return [*lines, f"until {min(times):g}s"] if times else lines


@pytest.mark.parametrize("story", STORIES, ids=[story.stem for story in STORIES])
def test_story(story, request):
    check(story, ClusterStage, rewrite=request.config.getoption("--rewrite"))


def test_every_phase_of_a_job_and_every_action_of_a_node_has_a_story():
    phases: set[str] = set()
    actions: set[type] = set()
    for story in STORIES:
        stage = ClusterStage()
        replay(stage, story.read_text())
        phases |= stage.phases
        actions |= stage.actions

    assert phases == set(PHASES)
    assert actions == set(get_args(follower.NodeAction))
