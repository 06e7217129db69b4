"""A new question is two files and a row: a kind that no feature has is asked on request, answered and published."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flota.cluster import questions
from flota.cluster.coordinator import Coordinator
from flota.cluster.follower import AnswerQuestion, Begin, Follower, Offer, Recall
from flota.cluster.job_state import RUNNING, JobState, decode_state, encode_state
from flota.cluster.node_record import encode_record
from flota.cluster.questions import ON_REQUEST, QUESTIONS, read_record
from flota.cluster.survey import QuestionRow, Survey
from flota.cluster.terms import Terms
from flota.job.report import FailedWorker
from flota.job.survey_outcomes import Outcome, Publish, Question, Wait
from flota.values import NamedTuple
from tests.rosters import ports_of
from tests.surveys import record_of

KIND = "temperature"
TIME = 2.0


# What would be src/flota/FEATURE/question.py.


class Temperature(NamedTuple):
    degrees: float = 0.0


def is_sound(answer: Temperature) -> bool:
    return answer.degrees > -274.0


def decide(survey: Survey) -> Outcome:
    late = survey.asked_at + TIME
    if survey.now < late and len(survey.answers) < len(survey.nodes):
        return Wait(late)
    return Publish(tuple(f"{node}: {answer.degrees:g}" for node, answer in sorted(survey.answers.items())))


# What would be src/flota/FEATURE/answer.py.


def answer_temperature(node: AnyNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001  a row's signature
    if not workers_gone:
        node.reply(question, Temperature(node.degrees))


@pytest.fixture(autouse=True)
def row(monkeypatch):
    made = QuestionRow(KIND, Temperature, is_sound, decide, answer_temperature, urgent=False)
    monkeypatch.setitem(QUESTIONS, KIND, made)
    monkeypatch.setattr(questions, "ON_REQUEST", (*ON_REQUEST, KIND))
    return made


class AnyNode:
    """What a node does about the actions of its follower."""

    def __init__(self, name: str, degrees: float) -> None:
        self.follower = Follower(name, replace(record_of(name), state="ready"), join_timeout=60, outage_limit=3)
        self.degrees = degrees
        self.is_slow = False
        self.began = self.recalled = 0

    def reply(self, question: Question, body: Temperature) -> None:
        self.follower.reply(question, body)

    def advance(self, job_state: JobState | None) -> None:
        if job_state:
            self.follower.receive_state(job_state)
        while actions := self.follower.advance(0.0, None, "nowhere"):
            for action in actions:
                if isinstance(action, Offer):
                    self.follower.offered(ports_of(1, 2, 3, 4), action.round)
                elif isinstance(action, AnswerQuestion) and not self.is_slow:
                    QUESTIONS[action.question.kind].answer(self, action.question, action.workers_gone)
                self.began += isinstance(action, Begin)
                self.recalled += isinstance(action, Recall)


class JobOfTwo:
    def __init__(self) -> None:
        self.nodes = [AnyNode("a", 40.0), AnyNode("b", 71.5)]
        self.coordinator = Coordinator(Terms("job", 2, 2, ("torch",)), None, 0.0, "a", 0.0)
        self.job_state: JobState | None = None
        self.settle(0.0)
        assert [node.began for node in self.nodes] == [1, 1]

    def settle(self, now: float) -> None:
        """Job states and node records go over the wire until none of them changes."""
        before: object = self
        while before != self.job_state:
            before = self.job_state
            for node in self.nodes:
                node.advance(self.job_state)
            sent = [(node.follower.name, encode_record(node.follower.record)) for node in self.nodes]
            records = [read_record(name, number, data, number) for number, (name, data) in enumerate(sent)]
            self.job_state = decode_state(encode_state(self.coordinator.decide([one for one in records if one], now)))


@pytest.fixture
def job():
    return JobOfTwo()


def test_it_is_asked_answered_and_published(job):
    after = job.nodes[1].follower.request(KIND)
    job.settle(1.0)

    assert job.job_state.results[KIND].id > after
    assert job.job_state.results[KIND].lines == ("a: 40", "b: 71.5")
    assert (job.job_state.phase, job.job_state.question) == (RUNNING, None)
    assert [node.recalled for node in job.nodes] == [0, 0], "the round has gone on"


def test_it_is_not_asked_unless_a_user_wants_it(job):
    job.settle(1.0)

    assert (job.job_state.asked, job.job_state.results) == (0, {})


def test_a_slow_node_is_waited_for_as_long_as_the_question_says(job):
    job.nodes[0].is_slow = True
    job.nodes[1].follower.request(KIND)
    job.settle(1.0)
    assert (job.job_state.question, job.coordinator.deadline) == (Question(1, KIND), 1.0 + TIME)

    job.settle(1.0 + TIME)

    assert job.job_state.results[KIND].lines == ("b: 71.5",)


def test_two_kinds_are_asked_one_after_the_other(job):
    job.nodes[0].follower.request("steps")
    job.nodes[1].follower.request(KIND)
    for node in job.nodes:
        node.is_slow = True
    job.settle(1.0)
    assert job.job_state.asks("steps")
    for node in job.nodes:
        node.is_slow = False

    job.settle(1.0 + TIME)

    assert [job.job_state.results[kind].id for kind in ("steps", KIND)] == [1, 2]
    assert job.job_state.results[KIND].lines == ("a: 40", "b: 71.5")


def test_two_kinds_that_one_node_asks_for_are_both_asked(job):
    job.nodes[0].follower.request("steps")
    job.nodes[0].follower.request(KIND)
    for node in job.nodes:
        node.is_slow = True
    job.settle(1.0)
    for node in job.nodes:
        node.is_slow = False

    job.settle(1.0 + TIME)

    assert set(job.job_state.results) == {"steps", KIND}


def test_a_request_for_a_question_of_the_future_is_not_served(job):
    node = job.nodes[0].follower
    node.record = replace(node.record, requests={KIND: 10**9})

    job.settle(1.0)

    assert (job.job_state.asked, job.job_state.question, job.job_state.results) == (0, None, {})


def test_it_gives_way_to_an_urgent_question(job):
    job.nodes[0].is_slow = True
    job.nodes[1].follower.request(KIND)
    job.settle(1.0)
    assert job.job_state.asks(KIND)
    for node in job.nodes:
        node.is_slow = True
    job.nodes[1].follower.report_failures((FailedWorker(1, 0, "b", 1, 3, "exited", "exit code 3", 1.0, "log"),))

    job.settle(1.5)

    assert job.job_state.asks("roll call")
    assert [node.recalled for node in job.nodes] == [1, 1]


def test_a_coordinator_that_has_missed_a_question_does_not_use_its_number_again(job):
    heard = job.job_state
    job.nodes[0].follower.request(KIND)
    job.settle(1.0)
    for node in job.nodes:
        node.is_slow = True
    job.coordinator = Coordinator(job.coordinator.terms, heard, 1.0, "b", 0.0)
    job.nodes[1].follower.report_failures((FailedWorker(1, 0, "b", 1, 3, "exited", "exit code 3", 1.0, "log"),))

    job.settle(1.5)

    question = job.job_state.question
    assert question and question.kind == "roll call" and question.id > 1
    assert [node.recalled for node in job.nodes] == [1, 1]


def test_an_unsound_answer_is_not_taken(job):
    job.nodes[0].degrees = -300.0
    job.nodes[1].follower.request(KIND)
    node = job.nodes[0].follower
    job.nodes[0].advance(replace(job.job_state, asked=1, question=Question(1, KIND)))

    assert node.record.answer.kind == KIND
    assert read_record("a", 1, encode_record(node.record), 1).record.answer is None
