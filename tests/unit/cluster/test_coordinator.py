"""The coordinator's decisions, one by one: records and a time in, a job state out."""

from __future__ import annotations

import pytest
from flota.cluster.all_idle import GOES_ON, TOGETHER
from msgspec.structs import replace

from flota.cluster import node_record
from flota.cluster.coordinator import FIRST_WORD, NEXT_WORD, Coordinator
from flota.cluster.job_state import (
    ENDED,
    GATHERING,
    ROLL_CALL,
    RUNNING,
    STACKS,
    YIELD,
    JobState,
    decode_state,
    encode_state,
)
from flota.cluster.leaving import LEAVE_TOGETHER
from flota.cluster.node_record import NodeRecord, Present, StepRow, decode_record, encode_record
from flota.cluster.terms import Terms
from flota.job.causes import EXITED, NOT_STARTED
from flota.job.report import FAILED, INCOMPLETE, STOPPED, SUCCEEDED, FailedWorker
from flota.job.spec import RestartPolicy
from flota.supervise.supervisor import A_MOMENT
from tests.rosters import ports_of

RESTARTS = RestartPolicy(2, enabled=True)
LEAVES = RestartPolicy(3, enabled=True, elastic_level=0)
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
        self.records[name] = replace(one, record=replace(one.record, **facts))

    def all_ready(self, round_number):
        for name in self.records:
            self.say(name, state=node_record.READY, round=round_number, failures=())

    def fail(self, name, code=3, cause=EXITED, **facts):
        fault = FailedWorker(1, 0, name, 1, code, cause, "exit code 3", 1.0, "log", **facts)
        self.say(name, state=node_record.FAILED, failures=(fault,), clock=self.now, swept=True)

    def after_roll_call(self) -> JobState:
        """What follows when all who are alive have answered."""
        assert self.decide().phase == ROLL_CALL
        for name, one in self.records.items():
            if one.record.state == node_record.READY:
                self.say(name, state=node_record.HERE, clock=self.now, swept=True)
        return self.decide()

    def decide(self, seconds=0.0, **how) -> JobState:
        self.now += seconds
        return self.coordinator.decide(list(self.records.values()), self.now, **how)


def started(nodes, policy=ONCE, **terms) -> Table:
    table = Table(nodes, policy, **{"elastic_timeout": 5.0, **terms})
    table.decide()
    assert table.decide(5.0).phase == RUNNING
    return table


def test_a_fixed_job_starts_when_all_are_ready():
    table = Table(2)
    assert [row.node for row in table.decide().seats] == ["host0", "host1"]


def test_nobody_starts_before_the_last_is_ready():
    table = Table(2)
    table.say("host1", round=-1)
    assert table.decide().phase == GATHERING


def test_elastic_starts_at_max_at_once_and_from_min_when_nothing_changes():
    assert Table(3, least=1, most=3).decide().phase == RUNNING
    table = Table(2, least=2, most=3, elastic_timeout=5.0)
    assert table.decide().phase == GATHERING
    assert table.coordinator.deadline == min(FIRST_WORD, 5.0)
    assert table.decide(4.0).phase == GATHERING
    table.records.pop("host1")
    table.decide(0.5)
    table.join("host2")
    assert table.decide(0.5).phase == GATHERING
    assert table.decide(4.9).phase == GATHERING, "a change starts the time anew"
    assert table.decide(0.1).phase == RUNNING


def test_the_first_failure_ends_a_job_without_restarts():
    table = started(2)
    table.fail("host1", code=-9)
    job_state = table.after_roll_call()
    assert (job_state.phase, job_state.ending.kind, job_state.ending.code) == (ENDED, FAILED, 137)
    assert job_state.ending.failures[0].node == "host1"


def test_of_several_failures_the_first_said_is_to_blame():
    table = started(3)
    for said, name in ((9, "host0"), (7, "host2"), (8, "host1")):
        table.fail(name)
        table.records[name] = replace(table.records[name], said=said)
    assert table.decide().ending.failures[0].node == "host2"


def test_the_roll_is_not_called_for_a_victim_until_its_culprit_is_seen_or_a_moment_has_passed():
    table = started(3)
    table.fail("host0", suffered=True)
    assert table.decide().phase == RUNNING
    assert table.coordinator.deadline == table.now + A_MOMENT
    assert table.decide(A_MOMENT / 2).phase == RUNNING
    table.fail("host1")
    assert table.decide().phase == ROLL_CALL
    table = started(3)
    table.fail("host0", suffered=True)
    table.decide()
    assert table.decide(A_MOMENT).phase == ROLL_CALL


def test_a_victim_of_a_lost_node_is_not_even_asked():
    table = started(2, RESTARTS)
    table.fail("host0", suffered=True)
    table.decide()
    del table.records["host1"]
    assert table.decide().why == "host1 was lost"


def test_a_restart_waits_as_long_as_the_policy_says():
    policy = RestartPolicy(9, enabled=True, backoff=5.0)
    table = started(2, policy)
    for round_number in range(1, 4):
        table.fail("host1")
        job_state = table.after_roll_call()
        assert (job_state.phase, job_state.attempt) == (GATHERING, round_number)
        table.all_ready(round_number)
        if round_number < 3:
            assert table.decide().phase == RUNNING
    assert (job_state.delay, table.decide().phase, table.coordinator.deadline) == (1.0, GATHERING, table.now + 1.0)
    assert table.decide(1.0).phase == RUNNING


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
        table.records[name] = replace(table.records[name], said=said)
    job_state = table.decide()
    assert (job_state.why, job_state.attempt) == ("host1 was lost", 0)


def test_a_coordinator_that_missed_a_round_goes_on_from_the_records():
    table = started(3, RESTARTS)
    for name in table.records:
        table.say(name, state=node_record.RUNNING, round=4)
    job_state = table.decide()
    assert (job_state.phase, job_state.round) == (GATHERING, 5)
    table.all_ready(5)
    assert table.decide().phase == RUNNING


def test_a_coordinator_that_missed_the_start_of_a_round_gathers_the_next():
    table = Table(3, RESTARTS)
    table.coordinator = Coordinator(table.terms, JobState(GATHERING, round=6), 0.0, "host0")
    for name in table.records:
        table.say(name, state=node_record.RUNNING, round=7)
    job_state = table.decide()
    assert (job_state.phase, job_state.round) == (GATHERING, 8)


def test_nobody_starts_over_for_a_newcomer_what_is_almost_done():
    table = started(2, RESTARTS, least=2, most=3)
    table.say("host0", state=node_record.DONE)
    table.join("late")
    assert table.decide().phase == RUNNING
    table.say("host1", state=node_record.DONE)
    assert table.decide().ending.kind == SUCCEEDED


SERVED = {"roles": ("server", "trainer"), "serving": (0,)}


def with_roles(table: Table, **counts) -> Table:
    """Each node's servers and trainers."""
    for name, own in counts.items():
        table.say(name, roles=("server", "trainer"), workers_by_role=own)
    return table


def test_servers_are_not_waited_for():
    table = with_roles(Table(2, **SERVED), host0=(1, 0), host1=(1, 1))
    assert table.decide().phase == RUNNING
    table.say("host0", state=node_record.SERVING)
    assert table.decide().phase == RUNNING
    table.say("host1", state=node_record.SERVING)
    assert table.decide().ending.kind == SUCCEEDED


def test_a_server_that_is_lost_is_missed():
    table = with_roles(Table(2, **SERVED), host0=(1, 0), host1=(0, 1))
    table.decide()
    table.say("host0", state=node_record.SERVING)
    table.decide()
    del table.records["host0"]
    assert table.decide().ending.reason == "host0 was lost"


@pytest.mark.parametrize(("own", "state"), [((1, 1), RUNNING), ((2, 0), GATHERING)])
def test_a_newcomer_starts_over_what_servers_only_serve_not_what_trainers_have_done(own, state):
    table = with_roles(Table(2, RESTARTS, least=2, most=3, elastic_timeout=0.0, **SERVED), host0=own, host1=(0, 2))
    assert table.decide().phase == RUNNING
    table.say("host0", state=node_record.SERVING)
    table.join("late")
    with_roles(table, late=(0, 2))
    assert table.decide().phase == state


def test_who_has_finished_is_not_missed():
    table = started(2)
    table.say("host0", state=node_record.DONE)
    table.decide()
    del table.records["host0"]
    assert table.decide().phase == RUNNING
    table.say("host1", state=node_record.DONE)
    assert table.decide().ending.kind == SUCCEEDED


def test_with_a_ghost_in_the_way_nobody_is_turned_away():
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


def test_who_never_answers_the_roll_call_was_lost_before_its_victim_failed():
    for policy, absence in ((ONCE, 2.5), (RESTARTS, 2.5), (ONCE, 0.0)):
        table = started(3, policy, absence=absence)
        table.fail("host0")
        assert table.decide().phase == ROLL_CALL
        table.say("host2", state=node_record.HERE)
        assert table.decide(0.1).phase == ROLL_CALL
        del table.records["host1"]
        table.decide()
        job_state = table.decide(absence)
        if policy is ONCE:
            assert (job_state.ending.kind, job_state.ending.reason) == (INCOMPLETE, "host1 was lost")
        else:
            assert (job_state.phase, job_state.why, job_state.attempt, job_state.failures) == (
                GATHERING,
                "host1 was lost",
                0,
                (),
            )


def test_who_is_lost_after_its_answer_is_no_excuse():
    for last in (node_record.HERE, node_record.DEAD):
        table = started(3)
        table.fail("host0")
        table.decide()
        table.say("host1", state=last)
        table.decide()
        del table.records["host1"]
        assert table.decide(1.0).phase == ROLL_CALL
        table.say("host2", state=node_record.HERE, swept=True)
        assert table.decide().ending.kind == FAILED


def test_who_is_there_but_does_not_answer_is_waited_for_no_longer_than_a_lease():
    table = started(2, absence=1.0)
    table.fail("host0")
    table.decide()
    assert table.coordinator.deadline == table.now + table.coordinator.admission.ghostly + 1.0
    assert table.decide(table.coordinator.admission.ghostly + 1.0).ending.kind == FAILED


def test_a_coordinator_that_takes_over_goes_on_with_the_roll_call():
    table = started(3)
    table.fail("host1")
    heard = table.decide()
    table.coordinator = Coordinator(table.terms, heard, table.now, "host2")
    del table.records["host0"]  # which had the coordinator
    assert table.decide().ending.reason == "host0 was lost"


def test_what_cannot_start_is_not_restarted():
    table = started(2, RESTARTS)
    table.fail("host1", code=127, cause=NOT_STARTED)
    assert table.after_roll_call().ending.code == 127


def test_a_failure_of_an_earlier_round_is_history():
    table = started(2, RESTARTS)
    table.fail("host1")
    table.after_roll_call()
    table.all_ready(1)
    assert table.decide().phase == RUNNING
    table.say("host0", round=0, state=node_record.FAILED)
    assert table.decide().round == 1


def test_at_level_0_a_failing_node_leaves_unless_it_serves():
    table = started(3, LEAVES, least=1, most=3)
    table.fail("host1")
    job_state = table.after_roll_call()
    assert (job_state.phase, job_state.attempt, job_state.why) == (GATHERING, 0, "host1 left after rank 1 failed")
    table.all_ready(1)
    table.decide()
    assert [row.node for row in table.decide(5.0).seats] == ["host0", "host2"]
    table = started(2, LEAVES)
    table.say("host0", serves=True)
    table.fail("host0", code=4)
    ending = table.after_roll_call().ending
    assert (ending.kind, ending.code) == (FAILED, 4)


def test_at_level_0_a_server_that_failed_is_named_as_one():
    table = with_roles(Table(2, LEAVES, **SERVED), host0=(1, 1), host1=(1, 1))
    table.decide()
    fault = FailedWorker(1, 0, "host1", 1, 3, EXITED, "exit code 3", 1.0, "log", role="server")
    table.say("host1", state=node_record.FAILED, failures=(fault,))
    assert table.after_roll_call().why == "host1 left after server 1 failed"


def test_all_done_is_success():
    table = started(2)
    table.say("host0", state=node_record.DONE)
    assert table.decide().phase == RUNNING
    table.say("host1", state=node_record.DONE)
    assert table.decide().ending.kind == SUCCEEDED


@pytest.mark.parametrize(
    ("policy", "elastic", "state"), [(ONCE, False, ENDED), (RESTARTS, False, GATHERING), (RESTARTS, True, GATHERING)]
)
def test_a_lost_node(policy, elastic, state):
    table = started(3, policy, least=1 if elastic else 3)
    del table.records["host1"]
    job_state = table.decide()
    assert job_state.phase == state
    assert job_state.attempt == 0, "a loss is not a failure of a worker"
    if state == ENDED:
        assert (job_state.ending.kind, job_state.ending.code, job_state.ending.reason) == (
            INCOMPLETE,
            75,
            "host1 was lost",
        )
    else:
        assert job_state.why == "host1 was lost"


def test_an_absence_is_not_believed_after_a_gap():
    table = started(2)
    held = table.records.pop("host1")
    assert table.decide(trusting=False).phase == RUNNING
    table.records["host1"] = held
    assert table.decide(1.0).phase == RUNNING


def test_a_record_that_vanished_without_a_word_is_given_time_to_come_back():
    table = started(2, absence=2.5)
    held = table.records.pop("host1")
    assert table.decide().phase == RUNNING
    assert table.coordinator.deadline == table.now + 2.5
    table.records["host1"] = held
    assert table.decide(2.0).phase == RUNNING
    del table.records["host1"]
    assert table.decide(1.0).phase == RUNNING, "the time begins anew"
    assert table.decide(2.5).ending.reason == "host1 was lost"


def test_a_shepherds_word_is_believed_at_once():
    table = started(2, absence=2.5)
    table.say("host1", state=node_record.DEAD)
    assert table.decide().ending.reason == "host1 was lost"


def test_who_joins_starts_a_new_round_and_takes_a_seat_behind_the_others():
    table = started(2, RESTARTS, least=2, most=3)
    table.join("a-host")
    job_state = table.decide()
    assert (job_state.phase, job_state.why) == (GATHERING, "a-host joined")
    table.all_ready(1)
    assert [row.node for row in table.decide().seats] == ["host0", "host1", "a-host"]


def test_one_that_leaves_waits_for_the_others_signals():
    table = started(3, RESTARTS, least=2, most=3)
    table.say("host2", state=node_record.LEAVING, signal=15)
    table.fail("host0")  # its peer is gone: nothing to blame anybody for
    assert table.decide().phase == RUNNING
    assert table.coordinator.deadline == table.now + LEAVE_TOGETHER
    del table.records["host2"]
    job_state = table.decide(LEAVE_TOGETHER)
    assert (job_state.phase, job_state.why, job_state.attempt) == (GATHERING, "host2 left", 0)


@pytest.mark.parametrize(("least", "signal"), [(3, 15), (1, 2)])
def test_leaving_a_fixed_job_or_ctrl_c_stops_it_for_all(least, signal):
    table = started(3, RESTARTS, least=least, most=3)
    table.say("host2", state=node_record.LEAVING, signal=signal)
    ending = table.decide().ending
    assert (ending.kind, ending.code, ending.signal) == (STOPPED, 128 + signal, signal)


def yielding(*steps, late=0.0):
    """A table whose every node's workers can end by themselves, when host0 was told to stop."""
    table = started(len(steps))
    table.say("host0", state=node_record.LEAVING, signal=15, yields=True, step=steps[0], pace=2.0)
    job_state = table.decide()
    assert (job_state.phase, job_state.stop_at) == (YIELD, None)
    for number, step in enumerate(steps[1:], 1):
        table.say(f"host{number}", state=node_record.YIELDING, yields=True, step=step, pace=1.0)
    return table


def test_workers_that_can_end_by_themselves_all_stop_at_one_step():
    table = yielding(7, 9)
    job_state = table.decide()
    assert job_state.stop_at == 9 + 2 + 4, "the last, and as far as the fastest gets until all have heard"
    table.say("host0", state=node_record.YIELDED)
    assert table.decide(60.0).phase == YIELD, "the nodes know best how long their workers may take"
    table.say("host1", state=node_record.YIELDED)
    ending = table.decide().ending
    assert (ending.kind, ending.code, ending.signal, ending.reason) == (STOPPED, 75, 15, "host0 was told to stop")


@pytest.mark.parametrize("how", ["cannot", "silent", "lost", "gone"])
def test_if_one_cannot_nobody_has_saved_the_job(how):
    table = yielding(7, 9, 8)
    if how == "gone":
        table.decide()
        for name, state in (
            ("host0", node_record.YIELDED),
            ("host1", node_record.GONE),
            ("host2", node_record.YIELDED),
        ):
            table.say(name, state=state)
    elif how == "lost":
        del table.records["host1"]
    elif how == "cannot":
        table.say("host1", yields=False)
    else:
        table.say("host1", state=node_record.RUNNING)
        assert table.decide().stop_at is None
        table.now += 2.0
    ending = table.decide().ending
    assert (ending.kind, ending.code) == (STOPPED, 143)


def test_a_leaver_whose_workers_cannot_ends_the_job_at_once():
    table = started(2)
    table.say("host0", state=node_record.LEAVING, signal=15)
    assert table.decide().ending.code == 143


def test_too_few_would_be_left():
    table = started(3, RESTARTS, least=2, most=3)
    table.say("host2", state=node_record.LEAVING, signal=15)
    table.decide()
    table.say("host1", state=node_record.LEAVING, signal=15)
    assert table.decide(0.3).ending.kind == STOPPED


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


def test_the_meeting_ends_with_names():
    table = Table(2, most=3, least=3, join_timeout=30.0)
    table.decide()
    assert table.decide(30.0).ending.reason == "the nodes did not meet in time: 2 of 3 nodes: host0, host1"
    table = Table(0, most=3, least=3, join_timeout=30.0)
    table.join("a", rank=2)
    table.decide()
    assert table.decide(30.0).ending.reason.endswith("1 of 3 nodes: a; missing: rank 0, 1")
    table = Table(1, most=2, least=2, join_timeout=30.0, hosts=("10.0.0.1", "10.0.0.2"))
    table.decide()
    assert table.decide(30.0).ending.reason.endswith("1 of 2 nodes: host0; missing: 10.0.0.2")


def test_who_is_missing_is_said_now_and_then():
    table = Table(1, most=2, least=2)
    assert table.decide().missing == ""
    assert table.decide(FIRST_WORD).missing == "1 of 2 nodes: host0; gives up in 598 s"
    assert table.coordinator.deadline == table.now + NEXT_WORD


def test_a_node_in_the_way_of_its_own_next_life_is_given_time_to_be_dead():
    table = Table(2, least=2, most=2)
    table.join("host1", name="again")
    assert table.decide().refused == {}
    assert "again" in table.decide(table.coordinator.admission.ghostly).refused
    table = started(2, RESTARTS)
    table.join("host1", name="again")
    table.decide()
    del table.records["host1"]
    table.decide(1.0)
    table.all_ready(1)
    assert [row.node for row in table.decide().seats] == ["host0", "again"]


def test_a_coordinator_that_takes_over_never_reuses_a_round_that_may_have_begun():
    heard = JobState(GATHERING, round=4)
    assert Coordinator(Terms("job", 2, 2, ("torch",)), heard, 0.0).job_state.round == 5
    heard = JobState(RUNNING, round=4)
    assert Coordinator(Terms("job", 2, 2, ("torch",)), heard, 0.0).job_state == heard


def test_a_newcomer_with_the_coordinator_trusts_a_round_whose_nodes_follow_it():
    heard = started(3, RESTARTS).coordinator.job_state
    table = Table(2, RESTARTS, least=3, most=3)
    table.join("host2", name="again")
    table.coordinator = Coordinator(table.terms, heard, 0.0, "again")
    job_state = table.decide()
    assert (job_state.phase, job_state.round, job_state.why) == (GATHERING, 1, "host2 came for a lost node")
    table.all_ready(1)
    assert [row.node for row in table.decide(0.1).seats] == ["host0", "host1", "again"]


def test_a_dead_runs_job_state_is_forgotten_with_its_last_record():
    heard = replace(started(2, RESTARTS).coordinator.job_state, attempt=2)
    table = Table(2, RESTARTS)  # the dead: their records are still there
    table.coordinator = Coordinator(table.terms, heard, 0.0, "new0")
    for name in ("new0", "new1"):
        table.join(name)
    assert table.decide().refused == {}
    del table.records["host0"], table.records["host1"]
    assert table.decide(table.coordinator.admission.ghostly).round == 1
    table.all_ready(1)
    job_state = table.decide(0.1)
    assert (job_state.phase, job_state.attempt, [row.node for row in job_state.seats]) == (RUNNING, 0, ["new0", "new1"])


def test_a_lull_is_measured_by_the_timeout_however_long_the_job_was_quiet_before():
    table = started(2)
    for name in table.records:
        table.say(name, state=node_record.RUNNING, stands=1800.0, timeout=60.0)
    assert table.decide().phase == RUNNING
    assert table.coordinator.deadline == table.now + TOGETHER * 60.0
    assert table.decide(TOGETHER * 60.0).phase == STACKS


def test_a_node_that_has_done_its_work_lets_the_others_go_on():
    table = started(3)
    for name in table.records:
        table.say(name, state=node_record.RUNNING, stands=1800.0, timeout=60.0)
    table.decide()
    table.say("host0", state=node_record.DONE)
    assert table.decide(1.0).phase == RUNNING
    assert table.decide(GOES_ON * 60.0 - 1.0).phase == RUNNING
    assert table.decide(1.0).phase == STACKS


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
    table.decide()
    table.say("host0", state=node_record.HERE)
    assert table.decide().phase == GATHERING
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


def test_a_serving_node_has_not_answered_the_roll_call_until_it_says_so():
    table = started(2)
    table.say("host1", state=node_record.SERVING)
    table.fail("host0")
    assert table.decide().phase == ROLL_CALL
    assert table.decide().phase == ROLL_CALL
    table.say("host1", state=node_record.HERE, swept=True)
    assert table.decide().ending.kind == FAILED


def test_a_serving_node_does_not_keep_newcomers_out():
    table = started(2, RESTARTS, least=2, most=3)
    table.say("host0", state=node_record.SERVING)
    table.join("late")
    assert table.decide().why == "late joined"


@pytest.mark.parametrize(("final", "kind"), [(True, FAILED), (False, None)])
def test_a_failure_that_is_final_ends_a_job_that_could_restart(final, kind):
    table = started(2, RESTARTS)
    table.fail("host1")
    (fault,) = table.records["host1"].record.failures
    table.say("host1", failures=(fault._replace(role="server", final=final),))
    job_state = table.after_roll_call()
    assert (job_state.ending.kind if job_state.ending else None) == kind


def test_at_level_0_nobody_leaves_after_a_failure_that_is_final():
    table = started(3, LEAVES, least=1, most=3)
    table.fail("host1")
    (fault,) = table.records["host1"].record.failures
    table.say("host1", failures=(fault._replace(final=True),))
    assert table.after_roll_call().ending.kind == FAILED


@pytest.mark.parametrize(
    ("roles", "own", "why"),
    [
        (("server", "trainer"), (), "it has trainers alone, this job has the roles server, trainer"),
        ((), ("server", "trainer"), "it has the roles server, trainer, this job has trainers alone"),
        (("server", "trainer"), ("trainer", "server"), "the roles trainer, server, this job has the roles server, tr"),
        (("heter", "heter"), ("heter",), "it has the roles heter, this job has the roles heter, heter"),
    ],
)
def test_a_node_with_other_roles_is_turned_away(roles, own, why):
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
    assert decode_state(encode_state(job_state)) == job_state


@pytest.mark.parametrize(
    ("facts", "sound"),
    [
        ({"roles": ("server", "trainer"), "workers_by_role": (1, 0)}, True),
        ({"roles": ("server", "trainer"), "workers_by_role": (0, 1)}, True),
        ({}, True),
        ({"roles": ("server", "trainer"), "workers_by_role": (1, 1)}, False),
        ({"roles": ("server", "trainer"), "workers_by_role": (0, 0)}, False),
        ({"roles": ("server", "trainer"), "workers_by_role": (2, -1)}, False),
        ({"roles": ("server", "trainer"), "workers_by_role": (1,)}, False),
        ({"roles": ("server",), "workers_by_role": (1, 0)}, False),
        ({"roles": ("server",)}, False),
        ({"workers_by_role": (1,)}, False),
        ({"roles": ("a\x1b[2J",), "workers_by_role": (1,)}, False),
        ({"roles": ("a" * 5000,), "workers_by_role": (1,)}, False),
    ],
)
def test_a_record_whose_counts_do_not_add_up_is_no_record(facts, sound):
    table = Table(1)
    table.say("host0", **facts)
    record = table.records["host0"].record
    assert decode_record(encode_record(record)) == (record if sound else None)


def test_a_fault_says_which_role_failed_and_nothing_unprintable():
    table = started(1)
    table.fail("host0")
    record = table.records["host0"].record
    (fault,) = record.failures
    named = replace(record, failures=(fault._replace(role="server", final=True),))
    assert decode_record(encode_record(named)) == named
    assert decode_record(encode_record(replace(record, failures=(fault._replace(role="\x07"),)))) is None


def test_records_and_job_states_survive_the_wire_and_nothing_else_does():
    table = started(2, RESTARTS)
    table.fail("host1")
    record = table.records["host1"].record
    assert decode_record(encode_record(record)) == record
    assert decode_state(encode_state(table.decide())) == table.coordinator.job_state
    for odd in (
        {"ports": ports_of(1, 2, 3, 70000)},
        {"job": "a\x1b[2J"},
        {"address": "10.0.0.1,evil"},
        {"host": "h" * 9999},
    ):
        assert decode_record(encode_record(replace(record, **odd))) is None
    hang = (record.failures[0]._replace(code=124, cause="hung"),)
    for odd in ({"round": 1 << 63}, {"asks": 1 << 63}, {"failures": hang}, {"steps": (StepRow(0, 1e300),)}):
        assert decode_record(encode_record(replace(record, **odd))) is None
    for garbage in (
        b"",
        b"{}",
        b"[]",
        b"\xff",
        encode_record(replace(record, ports=ports_of(1, 2, 3))),
        b'{"job":3}',
        encode_record(replace(record, host="a\x1b[2J")),
    ):
        assert decode_record(garbage) is None
        assert decode_state(garbage) is None
    assert decode_record(encode_record(replace(record, failures=()))) is None, "failed, and nothing to blame"
