"""The coordinator's decisions that no story in tests/scenarios shows: records and a time in, a job state out."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from flota.cluster import node_record
from flota.cluster.coordinator import Coordinator
from flota.cluster.job_state import GATHERING, RUNNING, JobState
from flota.cluster.leaving import LEAVE_TOGETHER
from flota.cluster.node_record import Answer, NodeRecord, Present
from flota.cluster.questions import ROLL_CALL, STACKS, read_record
from flota.cluster.terms import Terms
from flota.failures import roll_call
from flota.hangs.question import PositionsAnswer
from flota.hangs.wait_sites import COLLECTIVE, ELSEWHERE, RankPosition
from flota.job.causes import EXITED
from flota.job.report import FAILED, INCOMPLETE, STOPPED, SUCCEEDED, FailedWorker
from flota.job.spec import RestartPolicy
from tests.rosters import ports_of

RESTARTS = RestartPolicy(2, enabled=True)
ONCE = RestartPolicy()


class Table:
    """A coordinator, the records in front of it, and a clock."""

    def __init__(self, nodes, policy=ONCE, least=None, most=None, **terms):
        self.terms = Terms("job", least or nodes, most or nodes, ("torch",), policy, **terms)
        self.now = 0.0
        self.records = {}
        self.coordinator = Coordinator(self.terms, None, self.now)
        for number in range(nodes):
            self.join(f"host{number}")

    def join(self, host, name=None, **record):
        blank = NodeRecord(
            "job", host, "10.0.0.1", ports_of(1, 2, 3, 4), self.terms.least, self.terms.most, ("torch",), round=0
        )
        name = name or host
        self.records[name] = Present(name, len(self.records) + 1, replace(blank, **record))

    def say(self, name, **facts):
        one = self.records[name]
        record = replace(one.record, **facts)
        body = read_record(name, 0, node_record.encode_record(record), 0).body if "answer" in facts else one.body
        self.records[name] = replace(one, record=record, body=body)

    def all_ready(self, round_number):
        for name in self.records:
            self.say(name, state=node_record.READY, round=round_number, failures=(), answer=None)

    def fail(self, name, code=3, cause=EXITED, **facts):
        fault = FailedWorker(1, 0, name, 1, code, cause, "exit code 3", 1.0, "log", **facts)
        self.say(name, state=node_record.FAILED, failures=(fault,))

    def after_roll_call(self) -> JobState:
        """What follows when all nodes have answered, and their workers are gone."""
        question = self.decide().question
        assert question is not None and question.kind == ROLL_CALL
        body = Raw(msgspec.json.encode(roll_call.RollCallAnswer(self.now, swept=True)))
        for name in self.records:
            self.say(name, answer=Answer(question.id, ROLL_CALL, body))
        return self.decide()

    def decide(self, seconds=0.0, **how) -> JobState:
        self.now += seconds
        return self.coordinator.decide(list(self.records.values()), self.now, **how)


def started(nodes, policy=ONCE, **terms) -> Table:
    table = Table(nodes, policy, **{"elastic_timeout": 5.0, **terms})
    table.decide()
    assert table.decide(5.0).phase == RUNNING
    return table


def test_a_victim_of_a_lost_node_is_not_even_asked():
    table = started(2, RESTARTS)
    table.fail("host0", is_secondary=True)
    table.decide()
    del table.records["host1"]
    assert table.decide().why == "host1 was lost"


def test_each_round_knows_how_long_the_job_has_run():
    table = started(2, RESTARTS)
    assert table.coordinator.job_state.elapsed == 0.0
    del table.records["host1"]
    table.decide(60.0)
    table.join("host1", "again")
    table.all_ready(1)

    second = table.decide(40.0)

    assert (second.phase, second.round, second.elapsed) == (RUNNING, 1, 105.0)
    taken_over = Coordinator(table.terms, second, table.now, "host0")
    later = taken_over.decide([], table.now + 7.0)
    assert later.elapsed == 105.0


def test_a_lost_node_whose_host_has_another_node_is_named_by_its_number():
    table = Table(1, RESTARTS, most=2, least=2)
    table.join("host0", "second")
    assert table.decide().phase == RUNNING
    del table.records["second"]
    assert table.decide().why == "host0 (node 1) was lost"


def test_the_next_coordinator_remembers_a_crash_loop():
    table = started(2, RestartPolicy(9, enabled=True, crash_loop=2))
    table.fail("host1")
    job_state = table.after_roll_call()
    table.all_ready(job_state.round)
    table.coordinator = Coordinator(table.terms, table.decide(), table.now, "host1")
    table.fail("host1")
    job_state = table.after_roll_call()
    assert (job_state.ending.kind, job_state.ending.reason) == (
        FAILED,
        "the same failure 2 times in a row, without progress",
    )


def test_a_node_that_died_first_is_lost_and_its_victim_not_to_blame():
    table = started(2, RESTARTS)
    table.say("host1", state=node_record.DEAD)
    table.fail("host0")
    for said, name in ((7, "host1"), (8, "host0")):
        table.records[name] = replace(table.records[name], modified=said)
    job_state = table.decide()
    assert (job_state.why, job_state.attempt) == ("host1 was lost", 0)


def test_a_coordinator_that_missed_the_start_of_a_round_gathers_the_next():
    table = Table(3, RESTARTS)
    table.coordinator = Coordinator(table.terms, JobState(GATHERING, round=6), 0.0, "host0")
    for name in table.records:
        table.say(name, state=node_record.RUNNING, round=7)
    job_state = table.decide()
    assert (job_state.phase, job_state.round) == (GATHERING, 8)


def test_attempts_go_on_from_the_restarts_of_the_scheduler():
    table = started(2, RESTARTS._replace(earlier=2))
    assert table.coordinator.job_state.attempt == 2

    table.fail("host1")

    assert table.after_roll_call().attempt == 3


def test_attempts_of_an_earlier_run_in_the_same_store_do_not_count():
    seats = started(2).coordinator.job_state.seats
    dead = tuple(seat._replace(node=f"dead.{seat.node}") for seat in seats)
    table = Table(1, RESTARTS._replace(earlier=2))
    table.coordinator = Coordinator(table.terms, JobState(RUNNING, attempt=7, seats=dead), 0.0, "host0")
    table.decide()

    assert table.decide(60.0).attempt == 2


# What {time} in --log_dir stands for.


def test_the_first_coordinators_time_is_the_jobs_from_its_first_round_on():
    table = Table(2, RESTARTS, least=2, most=3, run_name="T1", elastic_timeout=5.0)
    assert table.decide().run_name == ""  # nothing to publish yet
    assert table.decide(5.0).run_name == "T1"

    successor = table.terms._replace(run_name="T2")
    table.coordinator = Coordinator(successor, table.decide(), table.now, "host1")
    table.join("late")
    job_state = table.decide()
    table.all_ready(job_state.round)

    assert (job_state.why, job_state.run_name) == ("late joined", "T1")
    assert table.decide().run_name == "T1"


def test_a_coordinator_that_has_seen_no_job_state_reads_the_time_from_records():
    table = Table(2, RESTARTS, run_name="T2")
    for name in table.records:
        table.say(name, state=node_record.RUNNING, round=3, run_name="T1")

    job_state = table.decide()
    table.all_ready(job_state.round)

    assert (job_state.phase, job_state.round, job_state.run_name) == (GATHERING, 4, "T1")
    assert table.decide().run_name == "T1"


def test_a_job_that_never_begins_has_a_time_at_its_end():
    table = Table(1, least=2, most=2, run_name="T1", join_timeout=60.0)
    table.decide()

    assert table.decide(60.0).run_name == "T1"


def test_a_job_state_of_an_earlier_run_does_not_give_its_time():
    table = Table(1, run_name="T2")
    seats = started(2).coordinator.job_state.seats
    dead = tuple(seat._replace(node=f"dead.{seat.node}") for seat in seats)
    left = JobState(RUNNING, round=1, seats=dead, run_name="T1")
    table.coordinator = Coordinator(table.terms, left, 0.0, "host0")
    table.decide()

    job_state = table.decide(60.0)
    table.all_ready(job_state.round)

    assert table.decide().run_name == "T2"


SERVED = {"roles": ("server", "trainer"), "serving": (0,)}


def with_roles(table: Table, **counts) -> Table:
    """Each node's servers and trainers."""
    for name, own in counts.items():
        table.say(name, roles=("server", "trainer"), workers_by_role=own)
    return table


@pytest.mark.parametrize(("own", "state"), [((1, 1), RUNNING), ((2, 0), GATHERING)])
def test_a_newcomer_starts_over_what_servers_only_serve_not_what_trainers_have_done(own, state):
    table = with_roles(Table(2, RESTARTS, least=2, most=3, elastic_timeout=0.0, **SERVED), host0=own, host1=(0, 2))
    assert table.decide().phase == RUNNING
    table.say("host0", state=node_record.SERVING)
    table.join("late")
    with_roles(table, late=(0, 2))
    assert table.decide().phase == state


def test_a_record_of_a_dead_node_does_not_exclude_other_nodes():
    table = started(3, RESTARTS)
    table.join("host1", name="again1")  # host1 has crashed; its record stays until its lease ends
    table.decide()
    del table.records["host0"]
    table.decide(0.1)
    table.join("host0", name="again0")
    assert table.decide(0.1).refused == {}
    del table.records["host1"]
    table.decide(1.0)
    table.all_ready(table.coordinator.job_state.round)
    assert table.decide().phase == RUNNING


def test_a_refusal_is_forgotten_with_the_record():
    table = started(2)
    table.join("other", job="other")
    assert list(table.decide().refused) == ["other"]
    del table.records["other"]
    assert table.decide().refused == {}


def test_restarts_are_counted_once_for_the_job():
    table = started(2, RESTARTS)
    for attempt in (1, 2):
        table.fail("host1")
        table.fail("host0")
        job_state = table.decide()
        assert (job_state.phase, job_state.round, job_state.attempt) == (GATHERING, attempt, attempt)
        table.all_ready(attempt)
        assert table.decide().phase == RUNNING, "nobody came or went: no reason to wait"
    table.fail("host0")
    assert table.after_roll_call().ending.kind == FAILED


def test_a_failure_of_an_earlier_round_is_history():
    table = started(2, RESTARTS)
    table.fail("host1")
    table.after_roll_call()
    table.all_ready(1)
    assert table.decide().phase == RUNNING
    table.say("host0", round=0, state=node_record.FAILED)
    assert table.decide().round == 1


def test_a_death_reported_by_a_shepherd_counts_at_once():
    table = started(2, absence=2.5)
    table.say("host1", state=node_record.DEAD)
    assert table.decide().ending.reason == "host1 was lost"


def test_one_that_leaves_waits_for_the_others_signals():
    table = started(3, RESTARTS, least=2, most=3)
    table.say("host2", state=node_record.LEAVING, signal=15)
    table.fail("host0")  # its peer is gone: nothing to blame anybody for
    assert table.decide().phase == RUNNING
    assert table.coordinator.deadline == table.now + LEAVE_TOGETHER
    del table.records["host2"]
    job_state = table.decide(LEAVE_TOGETHER)
    assert (job_state.phase, job_state.why, job_state.attempt) == (GATHERING, "host2 left", 0)


def test_the_node_that_serves_cannot_leave_alone():
    table = started(3, RESTARTS, least=1, most=3)
    table.say("host0", state=node_record.LEAVING, signal=15, serves=True)
    assert table.decide().ending.kind == STOPPED


def test_an_elastic_job_does_not_go_on_without_a_role():
    roles = {"roles": ("server", "trainer"), "ports": ports_of(1, 2, 3, 4)}
    table = Table(0, RESTARTS, least=1, most=2, elastic_timeout=5.0, roles=("server", "trainer"))
    table.join("host0", workers_by_role=(1, 0), **roles)
    table.join("host1", workers_by_role=(0, 1), **roles)
    assert table.decide().phase == RUNNING
    del table.records["host1"]
    table.decide()
    table.all_ready(1)
    assert table.decide(60.0).phase == GATHERING, "servers alone would serve for ever"
    table.join("again", workers_by_role=(0, 1), round=1, **roles)
    assert table.decide().phase == RUNNING


def test_a_restarted_node_waits_for_its_old_record_to_expire():
    table = Table(2, least=2, most=2)
    table.join("host1", name="again")
    assert table.decide().refused == {}
    assert "again" in table.decide(table.coordinator.admission.longest_stale).refused


def test_a_dead_runs_job_state_is_forgotten_with_its_last_record():
    heard = replace(started(2, RESTARTS).coordinator.job_state, attempt=2)
    table = Table(2, RESTARTS)  # the dead: their records are still there
    table.coordinator = Coordinator(table.terms, heard, 0.0, "new0")
    for name in ("new0", "new1"):
        table.join(name)
    assert table.decide().refused == {}
    del table.records["host0"], table.records["host1"]
    assert table.decide(table.coordinator.admission.longest_stale).round == 1
    table.all_ready(1)
    job_state = table.decide(0.1)
    assert (job_state.phase, job_state.attempt, [row.node for row in job_state.seats]) == (RUNNING, 0, ["new0", "new1"])


def test_all_serving_or_done_is_success():
    table = started(3)
    table.say("host0", state=node_record.SERVING)
    table.say("host1", state=node_record.DONE)
    assert table.decide().phase == RUNNING
    table.say("host2", state=node_record.SERVING)
    assert table.decide().ending.kind == SUCCEEDED


def test_a_node_that_serves_again_after_a_restart_is_not_taken_for_one_that_serves_now():
    table = started(2, RESTARTS)
    table.say("host0", state=node_record.SERVING)
    table.fail("host1")
    assert table.after_roll_call().phase == GATHERING
    table.all_ready(1)
    assert table.decide().phase == RUNNING
    table.say("host0", state=node_record.SERVING, round=0)
    table.say("host1", state=node_record.DONE)
    assert table.decide().phase == RUNNING, "its word is of the round before"


@pytest.mark.parametrize("absence", [0.0, 2.5])
def test_a_serving_node_that_is_lost_is_missed(absence):
    table = started(2, absence=absence)
    table.say("host0", state=node_record.SERVING)
    table.decide()
    del table.records["host0"]
    table.decide()
    assert table.decide(absence).ending.reason == "host0 was lost"


def test_a_serving_node_that_was_lost_is_missed_though_the_others_are_done():
    table = started(2)
    table.say("host0", state=node_record.SERVING)
    table.decide()
    del table.records["host0"]
    table.say("host1", state=node_record.DONE)
    assert table.decide().ending.kind == INCOMPLETE


def test_a_serving_node_does_not_keep_newcomers_out():
    table = started(2, RESTARTS, least=2, most=3)
    table.say("host0", state=node_record.SERVING)
    table.join("late")
    assert table.decide().why == "late joined"


@pytest.mark.parametrize(
    ("roles", "own", "why"),
    [
        (("server", "trainer"), (), "it has only trainers, this job has the roles server, trainer"),
        ((), ("server", "trainer"), "it has the roles server, trainer, this job has only trainers"),
        (("server", "trainer"), ("trainer", "server"), "the roles trainer, server, this job has the roles server, tr"),
        (("heter", "heter"), ("heter",), "it has the roles heter, this job has the roles heter, heter"),
    ],
)
def test_a_node_with_other_roles_is_refused(roles, own, why):
    table = Table(0, least=2, most=2, roles=roles)
    for host, names in (("host0", roles), ("other", own)):
        table.join(host, roles=names, workers_by_role=(1, *[0] * (len(names) - 1)) if names else ())
    job_state = table.decide()
    assert why in job_state.refused["other"].why
    assert list(job_state.refused) == ["other"]


def test_a_seat_has_the_counts_of_its_record():
    table = Table(0, least=2, most=2, roles=("server", "trainer"))
    table.join("host0", roles=("server", "trainer"), workers_by_role=(1, 0))
    table.join("host1", roles=("server", "trainer"), workers_by_role=(0, 2), ports=ports_of(1, 2, 3, 4, 5))
    job_state = table.decide()
    assert [row.workers_by_role for row in job_state.seats] == [(1, 0), (0, 2)]


def test_an_answer_also_counts_for_the_question_that_follows_up():
    """A node may fail as a consequence before it has heard that others may abort their workers."""
    table = started(3)

    def tell(name, kind="", **answer):
        number = int(name[-1])
        places = (RankPosition(number, kind, f"{kind} at x.py:1", "trainer", name),) if kind else ()
        body = Raw(msgspec.json.encode(PositionsAnswer(places, **answer)))
        table.say(name, answer=Answer(table.coordinator.job_state.asked, STACKS, body))

    for name in table.records:
        table.say(name, state=node_record.RUNNING, idle=30.0, timeout=30.0)
    table.decide()
    assert table.decide(30.0).asks(STACKS)
    tell("host0", COLLECTIVE)
    tell("host1", COLLECTIVE)
    tell("host2", blind=True)
    table.decide()

    table.fail("host0", is_secondary=True)
    tell("host2", ELSEWHERE)
    (failure,) = table.decide().failures

    assert failure.rank == 2
    assert f"2 of 3 ranks: {COLLECTIVE} at x.py:1" in failure.said[2]
