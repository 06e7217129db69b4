"""The chair's decisions, one by one: cards and a time in, a notice out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flota.job.report import EXITED, FAILED, INCOMPLETE, NOT_STARTED, STOPPED, SUCCEEDED
from flota.job.spec import RestartPolicy
from flota.rendezvous import cards
from flota.rendezvous.cards import Card, Fault, Present, StepRow, decode_card, encode_card
from flota.rendezvous.chair import FIRST_WORD, NEXT_WORD, Chair
from flota.rendezvous.hanging import GOES_ON, TOGETHER
from flota.rendezvous.leaving import LEAVE_TOGETHER
from flota.rendezvous.notices import (
    ENDED,
    GATHERING,
    ROLL_CALL,
    RUNNING,
    STACKS,
    YIELD,
    Notice,
    decode_notice,
    encode_notice,
)
from flota.rendezvous.terms import Terms
from flota.supervise.machine import A_MOMENT

RESTARTS = RestartPolicy(2, enabled=True)
LEAVES = RestartPolicy(3, enabled=True, elastic_level=0)
ONCE = RestartPolicy()


class Table:
    """A chair, the cards in front of it, and a clock."""

    def __init__(self, nodes, policy=ONCE, least=None, most=None, **terms):
        self.terms = Terms("job", least or nodes, most or nodes, ("torch",), policy, **terms)
        self.now = 0.0
        self.cards = {}
        self.chair = Chair(self.terms, None, self.now)
        for number in range(nodes):
            self.join(f"host{number}")

    def join(self, host, name=None, **card):
        blank = Card("job", host, "10.0.0.1", (1, 2, 3, 4), self.terms.least, self.terms.most, ("torch",), round=0)
        name = name or host
        self.cards[name] = Present(name, len(self.cards) + 1, replace(blank, **card))

    def say(self, name, **facts):
        one = self.cards[name]
        self.cards[name] = replace(one, card=replace(one.card, **facts))

    def all_ready(self, round_number):
        for name in self.cards:
            self.say(name, state=cards.READY, round=round_number, faults=())

    def fail(self, name, code=3, cause=EXITED, **facts):
        fault = Fault(1, 0, name, 1, code, cause, "exit code 3", 1.0, "log", **facts)
        self.say(name, state=cards.FAILED, faults=(fault,), clock=self.now, swept=True)

    def after_roll_call(self) -> Notice:
        """What follows when all who are alive have answered."""
        assert self.judge().state == ROLL_CALL
        for name, one in self.cards.items():
            if one.card.state == cards.READY:
                self.say(name, state=cards.HERE, clock=self.now, swept=True)
        return self.judge()

    def judge(self, seconds=0.0, **how) -> Notice:
        self.now += seconds
        return self.chair.judge(list(self.cards.values()), self.now, **how)


def started(nodes, policy=ONCE, **terms) -> Table:
    table = Table(nodes, policy, **{"elastic_timeout": 5.0, **terms})
    table.judge()
    assert table.judge(5.0).state == RUNNING
    return table


def test_a_fixed_job_starts_when_all_are_ready():
    table = Table(2)
    assert [row.node for row in table.judge().seats] == ["host0", "host1"]


def test_nobody_starts_before_the_last_is_ready():
    table = Table(2)
    table.say("host1", round=-1)
    assert table.judge().state == GATHERING


def test_elastic_starts_at_max_at_once_and_from_min_when_nothing_changes():
    assert Table(3, least=1, most=3).judge().state == RUNNING
    table = Table(2, least=2, most=3, elastic_timeout=5.0)
    assert table.judge().state == GATHERING
    assert table.chair.deadline == min(FIRST_WORD, 5.0)
    assert table.judge(4.0).state == GATHERING
    table.cards.pop("host1")
    table.judge(0.5)
    table.join("host2")
    assert table.judge(0.5).state == GATHERING
    assert table.judge(4.9).state == GATHERING, "a change starts the time anew"
    assert table.judge(0.1).state == RUNNING


def test_the_first_failure_ends_a_job_without_restarts():
    table = started(2)
    table.fail("host1", code=-9)
    notice = table.after_roll_call()
    assert (notice.state, notice.ending.kind, notice.ending.code) == (ENDED, FAILED, 137)
    assert notice.ending.faults[0].host == "host1"


def test_of_several_failures_the_first_said_is_to_blame():
    table = started(3)
    for said, name in ((9, "host0"), (7, "host2"), (8, "host1")):
        table.fail(name)
        table.cards[name] = replace(table.cards[name], said=said)
    assert table.judge().ending.faults[0].host == "host2"


def test_the_roll_is_not_called_for_a_victim_until_its_culprit_is_seen_or_a_moment_has_passed():
    table = started(3)
    table.fail("host0", suffered=True)
    assert table.judge().state == RUNNING
    assert table.chair.deadline == table.now + A_MOMENT
    assert table.judge(A_MOMENT / 2).state == RUNNING
    table.fail("host1")
    assert table.judge().state == ROLL_CALL
    table = started(3)
    table.fail("host0", suffered=True)
    table.judge()
    assert table.judge(A_MOMENT).state == ROLL_CALL


def test_a_victim_of_a_lost_node_is_not_even_asked():
    table = started(2, RESTARTS)
    table.fail("host0", suffered=True)
    table.judge()
    del table.cards["host1"]
    assert table.judge().why == "host1 was lost"


def test_a_restart_waits_as_long_as_the_policy_says():
    policy = RestartPolicy(9, enabled=True, backoff=5.0)
    table = started(2, policy)
    for round_number in range(1, 4):
        table.fail("host1")
        notice = table.after_roll_call()
        assert (notice.state, notice.attempt) == (GATHERING, round_number)
        table.all_ready(round_number)
        if round_number < 3:
            assert table.judge().state == RUNNING
    assert (notice.delay, table.judge().state, table.chair.deadline) == (1.0, GATHERING, table.now + 1.0)
    assert table.judge(1.0).state == RUNNING


def test_the_next_chair_remembers_a_crash_loop():
    table = started(2, RestartPolicy(9, enabled=True, crash_loop=2))
    table.fail("host1")
    notice = table.after_roll_call()
    table.all_ready(notice.round)
    table.chair = Chair(table.terms, table.judge(), table.now, "host1")
    table.fail("host1")
    notice = table.after_roll_call()
    assert (notice.ending.kind, notice.ending.reason) == (FAILED, "the same failure 2 times in a row, without progress")


def test_a_node_that_died_first_is_lost_and_its_victim_not_to_blame():
    table = started(2, RESTARTS)
    table.say("host1", state=cards.DEAD)
    table.fail("host0")
    for said, name in ((7, "host1"), (8, "host0")):
        table.cards[name] = replace(table.cards[name], said=said)
    notice = table.judge()
    assert (notice.why, notice.attempt) == ("host1 was lost", 0)


def test_a_chair_that_missed_a_round_goes_on_from_the_cards():
    table = started(3, RESTARTS)
    for name in table.cards:
        table.say(name, state=cards.RUNNING, round=4)
    notice = table.judge()
    assert (notice.state, notice.round) == (GATHERING, 5)
    table.all_ready(5)
    assert table.judge().state == RUNNING


def test_a_chair_that_missed_the_start_of_a_round_gathers_the_next():
    table = Table(3, RESTARTS)
    table.chair = Chair(table.terms, Notice(GATHERING, round=6), 0.0, "host0")
    for name in table.cards:
        table.say(name, state=cards.RUNNING, round=7)
    notice = table.judge()
    assert (notice.state, notice.round) == (GATHERING, 8)


def test_nobody_starts_over_for_a_newcomer_what_is_almost_done():
    table = started(2, RESTARTS, least=2, most=3)
    table.say("host0", state=cards.DONE)
    table.join("late")
    assert table.judge().state == RUNNING
    table.say("host1", state=cards.DONE)
    assert table.judge().ending.kind == SUCCEEDED


SERVED = {"roles": ("server", "trainer"), "serving": (0,)}


def with_roles(table: Table, **counts) -> Table:
    """Each node's servers and trainers."""
    for name, own in counts.items():
        table.say(name, roles=("server", "trainer"), counts=own)
    return table


def test_servers_are_not_waited_for():
    table = with_roles(Table(2, **SERVED), host0=(1, 0), host1=(1, 1))
    assert table.judge().state == RUNNING
    table.say("host0", state=cards.SERVING)
    assert table.judge().state == RUNNING
    table.say("host1", state=cards.SERVING)
    assert table.judge().ending.kind == SUCCEEDED


def test_a_server_that_is_lost_is_missed():
    table = with_roles(Table(2, **SERVED), host0=(1, 0), host1=(0, 1))
    table.judge()
    table.say("host0", state=cards.SERVING)
    table.judge()
    del table.cards["host0"]
    assert table.judge().ending.reason == "host0 was lost"


@pytest.mark.parametrize(("own", "state"), [((1, 1), RUNNING), ((2, 0), GATHERING)])
def test_a_newcomer_starts_over_what_servers_only_serve_not_what_trainers_have_done(own, state):
    table = with_roles(Table(2, RESTARTS, least=2, most=3, elastic_timeout=0.0, **SERVED), host0=own, host1=(0, 2))
    assert table.judge().state == RUNNING
    table.say("host0", state=cards.SERVING)
    table.join("late")
    with_roles(table, late=(0, 2))
    assert table.judge().state == state


def test_who_has_finished_is_not_missed():
    table = started(2)
    table.say("host0", state=cards.DONE)
    table.judge()
    del table.cards["host0"]
    assert table.judge().state == RUNNING
    table.say("host1", state=cards.DONE)
    assert table.judge().ending.kind == SUCCEEDED


def test_with_a_ghost_in_the_way_nobody_is_turned_away():
    table = started(3, RESTARTS)
    table.join("host1", name="again1")  # host1 has crashed; its card stays until its lease ends
    table.judge()
    del table.cards["host0"]
    table.judge(0.1)
    table.join("host0", name="again0")
    assert table.judge(0.1).refused == {}
    del table.cards["host1"]
    table.judge(1.0)
    table.all_ready(table.chair.notice.round)
    assert table.judge().state == RUNNING


def test_a_refusal_is_forgotten_with_the_card():
    table = started(2)
    table.join("other", job="other")
    assert list(table.judge().refused) == ["other"]
    del table.cards["other"]
    assert table.judge().refused == {}


def test_restarts_are_counted_once_for_the_job():
    table = started(2, RESTARTS)
    for attempt in (1, 2):
        table.fail("host1")
        table.fail("host0")
        notice = table.judge()
        assert (notice.state, notice.round, notice.attempt) == (GATHERING, attempt, attempt)
        table.all_ready(attempt)
        assert table.judge().state == RUNNING, "nobody came or went: no reason to wait"
    table.fail("host0")
    assert table.after_roll_call().ending.kind == FAILED


def test_who_never_answers_the_roll_call_was_lost_before_its_victim_failed():
    for policy, absence in ((ONCE, 2.5), (RESTARTS, 2.5), (ONCE, 0.0)):
        table = started(3, policy, absence=absence)
        table.fail("host0")
        assert table.judge().state == ROLL_CALL
        table.say("host2", state=cards.HERE)
        assert table.judge(0.1).state == ROLL_CALL
        del table.cards["host1"]
        table.judge()
        notice = table.judge(absence)
        if policy is ONCE:
            assert (notice.ending.kind, notice.ending.reason) == (INCOMPLETE, "host1 was lost")
        else:
            assert (notice.state, notice.why, notice.attempt, notice.faults) == (GATHERING, "host1 was lost", 0, ())


def test_who_is_lost_after_its_answer_is_no_excuse():
    for last in (cards.HERE, cards.DEAD):
        table = started(3)
        table.fail("host0")
        table.judge()
        table.say("host1", state=last)
        table.judge()
        del table.cards["host1"]
        assert table.judge(1.0).state == ROLL_CALL
        table.say("host2", state=cards.HERE, swept=True)
        assert table.judge().ending.kind == FAILED


def test_who_is_there_but_does_not_answer_is_waited_for_no_longer_than_a_lease():
    table = started(2, absence=1.0)
    table.fail("host0")
    table.judge()
    assert table.chair.deadline == table.now + table.chair.admission.ghostly + 1.0
    assert table.judge(table.chair.admission.ghostly + 1.0).ending.kind == FAILED


def test_a_chair_that_takes_over_goes_on_with_the_roll_call():
    table = started(3)
    table.fail("host1")
    heard = table.judge()
    table.chair = Chair(table.terms, heard, table.now, "host2")
    del table.cards["host0"]  # which had the chair
    assert table.judge().ending.reason == "host0 was lost"


def test_what_cannot_start_is_not_restarted():
    table = started(2, RESTARTS)
    table.fail("host1", code=127, cause=NOT_STARTED)
    assert table.after_roll_call().ending.code == 127


def test_a_failure_of_an_earlier_round_is_history():
    table = started(2, RESTARTS)
    table.fail("host1")
    table.after_roll_call()
    table.all_ready(1)
    assert table.judge().state == RUNNING
    table.say("host0", round=0, state=cards.FAILED)
    assert table.judge().round == 1


def test_at_level_0_a_failing_node_leaves_unless_it_serves():
    table = started(3, LEAVES, least=1, most=3)
    table.fail("host1")
    notice = table.after_roll_call()
    assert (notice.state, notice.attempt, notice.why) == (GATHERING, 0, "host1 left after rank 1 failed")
    table.all_ready(1)
    table.judge()
    assert [row.node for row in table.judge(5.0).seats] == ["host0", "host2"]
    table = started(2, LEAVES)
    table.say("host0", serves=True)
    table.fail("host0", code=4)
    ending = table.after_roll_call().ending
    assert (ending.kind, ending.code) == (FAILED, 4)


def test_at_level_0_a_server_that_failed_is_named_as_one():
    table = with_roles(Table(2, LEAVES, **SERVED), host0=(1, 1), host1=(1, 1))
    table.judge()
    fault = Fault(1, 0, "host1", 1, 3, EXITED, "exit code 3", 1.0, "log", role="server")
    table.say("host1", state=cards.FAILED, faults=(fault,))
    assert table.after_roll_call().why == "host1 left after server 1 failed"


def test_all_done_is_success():
    table = started(2)
    table.say("host0", state=cards.DONE)
    assert table.judge().state == RUNNING
    table.say("host1", state=cards.DONE)
    assert table.judge().ending.kind == SUCCEEDED


@pytest.mark.parametrize(
    ("policy", "elastic", "state"), [(ONCE, False, ENDED), (RESTARTS, False, GATHERING), (RESTARTS, True, GATHERING)]
)
def test_a_lost_node(policy, elastic, state):
    table = started(3, policy, least=1 if elastic else 3)
    del table.cards["host1"]
    notice = table.judge()
    assert notice.state == state
    assert notice.attempt == 0, "a loss is not a failure of a worker"
    if state == ENDED:
        assert (notice.ending.kind, notice.ending.code, notice.ending.reason) == (INCOMPLETE, 75, "host1 was lost")
    else:
        assert notice.why == "host1 was lost"


def test_an_absence_is_not_believed_after_a_gap():
    table = started(2)
    held = table.cards.pop("host1")
    assert table.judge(trusting=False).state == RUNNING
    table.cards["host1"] = held
    assert table.judge(1.0).state == RUNNING


def test_a_card_that_vanished_without_a_word_is_given_time_to_come_back():
    table = started(2, absence=2.5)
    held = table.cards.pop("host1")
    assert table.judge().state == RUNNING
    assert table.chair.deadline == table.now + 2.5
    table.cards["host1"] = held
    assert table.judge(2.0).state == RUNNING
    del table.cards["host1"]
    assert table.judge(1.0).state == RUNNING, "the time begins anew"
    assert table.judge(2.5).ending.reason == "host1 was lost"


def test_a_shepherds_word_is_believed_at_once():
    table = started(2, absence=2.5)
    table.say("host1", state=cards.DEAD)
    assert table.judge().ending.reason == "host1 was lost"


def test_who_joins_starts_a_new_round_and_takes_a_seat_behind_the_others():
    table = started(2, RESTARTS, least=2, most=3)
    table.join("a-host")
    notice = table.judge()
    assert (notice.state, notice.why) == (GATHERING, "a-host joined")
    table.all_ready(1)
    assert [row.node for row in table.judge().seats] == ["host0", "host1", "a-host"]


def test_one_that_leaves_waits_for_the_others_signals():
    table = started(3, RESTARTS, least=2, most=3)
    table.say("host2", state=cards.LEAVING, signal=15)
    table.fail("host0")  # its peer is gone: nothing to blame anybody for
    assert table.judge().state == RUNNING
    assert table.chair.deadline == table.now + LEAVE_TOGETHER
    del table.cards["host2"]
    notice = table.judge(LEAVE_TOGETHER)
    assert (notice.state, notice.why, notice.attempt) == (GATHERING, "host2 left", 0)


@pytest.mark.parametrize(("least", "signal"), [(3, 15), (1, 2)])
def test_leaving_a_fixed_job_or_ctrl_c_stops_it_for_all(least, signal):
    table = started(3, RESTARTS, least=least, most=3)
    table.say("host2", state=cards.LEAVING, signal=signal)
    ending = table.judge().ending
    assert (ending.kind, ending.code, ending.signal) == (STOPPED, 128 + signal, signal)


def yielding(*steps, late=0.0):
    """A table whose every node's workers can end by themselves, when host0 was told to stop."""
    table = started(len(steps))
    table.say("host0", state=cards.LEAVING, signal=15, yields=True, step=steps[0], pace=2.0)
    notice = table.judge()
    assert (notice.state, notice.stop_at) == (YIELD, None)
    for number, step in enumerate(steps[1:], 1):
        table.say(f"host{number}", state=cards.YIELDING, yields=True, step=step, pace=1.0)
    return table


def test_workers_that_can_end_by_themselves_all_stop_at_one_step():
    table = yielding(7, 9)
    notice = table.judge()
    assert notice.stop_at == 9 + 2 + 4, "the last, and as far as the fastest gets until all have heard"
    table.say("host0", state=cards.YIELDED)
    assert table.judge(60.0).state == YIELD, "the nodes know best how long their workers may take"
    table.say("host1", state=cards.YIELDED)
    ending = table.judge().ending
    assert (ending.kind, ending.code, ending.signal, ending.reason) == (STOPPED, 75, 15, "host0 was told to stop")


@pytest.mark.parametrize("how", ["cannot", "silent", "lost", "gone"])
def test_if_one_cannot_nobody_has_saved_the_job(how):
    table = yielding(7, 9, 8)
    if how == "gone":
        table.judge()
        for name, state in (("host0", cards.YIELDED), ("host1", cards.GONE), ("host2", cards.YIELDED)):
            table.say(name, state=state)
    elif how == "lost":
        del table.cards["host1"]
    elif how == "cannot":
        table.say("host1", yields=False)
    else:
        table.say("host1", state=cards.RUNNING)
        assert table.judge().stop_at is None
        table.now += 2.0
    ending = table.judge().ending
    assert (ending.kind, ending.code) == (STOPPED, 143)


def test_a_leaver_whose_workers_cannot_ends_the_job_at_once():
    table = started(2)
    table.say("host0", state=cards.LEAVING, signal=15)
    assert table.judge().ending.code == 143


def test_too_few_would_be_left():
    table = started(3, RESTARTS, least=2, most=3)
    table.say("host2", state=cards.LEAVING, signal=15)
    table.judge()
    table.say("host1", state=cards.LEAVING, signal=15)
    assert table.judge(0.3).ending.kind == STOPPED


def test_the_node_that_serves_cannot_leave_alone():
    table = started(3, RESTARTS, least=1, most=3)
    table.say("host0", state=cards.LEAVING, signal=15, serves=True)
    assert table.judge().ending.kind == STOPPED


def test_an_elastic_job_does_not_go_on_without_a_role():
    roles = {"roles": ("server", "trainer"), "ports": (1, 2, 3, 4)}
    table = Table(0, RESTARTS, least=1, most=2, elastic_timeout=5.0, roles=("server", "trainer"))
    table.join("host0", counts=(1, 0), **roles)
    table.join("host1", counts=(0, 1), **roles)
    assert table.judge().state == RUNNING
    del table.cards["host1"]
    table.judge()
    table.all_ready(1)
    assert table.judge(60.0).state == GATHERING, "servers alone would serve for ever"
    table.join("again", counts=(0, 1), round=1, **roles)
    assert table.judge().state == RUNNING


def test_the_meeting_ends_with_names():
    table = Table(2, most=3, least=3, join_timeout=30.0)
    table.judge()
    assert table.judge(30.0).ending.reason == "the nodes did not meet in time: 2 of 3 nodes: host0, host1"
    table = Table(0, most=3, least=3, join_timeout=30.0)
    table.join("a", rank=2)
    table.judge()
    assert table.judge(30.0).ending.reason.endswith("1 of 3 nodes: a; missing: rank 0, 1")
    table = Table(1, most=2, least=2, join_timeout=30.0, hosts=("10.0.0.1", "10.0.0.2"))
    table.judge()
    assert table.judge(30.0).ending.reason.endswith("1 of 2 nodes: host0; missing: 10.0.0.2")


def test_who_is_missing_is_said_now_and_then():
    table = Table(1, most=2, least=2)
    assert table.judge().missing == ""
    assert table.judge(FIRST_WORD).missing == "1 of 2 nodes: host0; gives up in 598 s"
    assert table.chair.deadline == table.now + NEXT_WORD


def test_a_node_in_the_way_of_its_own_next_life_is_given_time_to_be_dead():
    table = Table(2, least=2, most=2)
    table.join("host1", name="again")
    assert table.judge().refused == {}
    assert "again" in table.judge(table.chair.admission.ghostly).refused
    table = started(2, RESTARTS)
    table.join("host1", name="again")
    table.judge()
    del table.cards["host1"]
    table.judge(1.0)
    table.all_ready(1)
    assert [row.node for row in table.judge().seats] == ["host0", "again"]


def test_a_chair_that_takes_over_never_reuses_a_round_that_may_have_begun():
    heard = Notice(GATHERING, round=4)
    assert Chair(Terms("job", 2, 2, ("torch",)), heard, 0.0).notice.round == 5
    heard = Notice(RUNNING, round=4)
    assert Chair(Terms("job", 2, 2, ("torch",)), heard, 0.0).notice == heard


def test_a_newcomer_with_the_chair_trusts_a_round_whose_nodes_follow_it():
    heard = started(3, RESTARTS).chair.notice
    table = Table(2, RESTARTS, least=3, most=3)
    table.join("host2", name="again")
    table.chair = Chair(table.terms, heard, 0.0, "again")
    notice = table.judge()
    assert (notice.state, notice.round, notice.why) == (GATHERING, 1, "host2 came for a lost node")
    table.all_ready(1)
    assert [row.node for row in table.judge(0.1).seats] == ["host0", "host1", "again"]


def test_a_dead_runs_notice_is_forgotten_with_its_last_card():
    heard = replace(started(2, RESTARTS).chair.notice, attempt=2)
    table = Table(2, RESTARTS)  # the dead: their cards are still there
    table.chair = Chair(table.terms, heard, 0.0, "new0")
    for name in ("new0", "new1"):
        table.join(name)
    assert table.judge().refused == {}
    del table.cards["host0"], table.cards["host1"]
    assert table.judge(table.chair.admission.ghostly).round == 1
    table.all_ready(1)
    notice = table.judge(0.1)
    assert (notice.state, notice.attempt, [row.node for row in notice.seats]) == (RUNNING, 0, ["new0", "new1"])


def test_a_lull_is_measured_by_the_timeout_however_long_the_job_was_quiet_before():
    table = started(2)
    for name in table.cards:
        table.say(name, state=cards.RUNNING, stands=1800.0, timeout=60.0)
    assert table.judge().state == RUNNING
    assert table.chair.deadline == table.now + TOGETHER * 60.0
    assert table.judge(TOGETHER * 60.0).state == STACKS


def test_a_node_that_has_done_its_work_lets_the_others_go_on():
    table = started(3)
    for name in table.cards:
        table.say(name, state=cards.RUNNING, stands=1800.0, timeout=60.0)
    table.judge()
    table.say("host0", state=cards.DONE)
    assert table.judge(1.0).state == RUNNING
    assert table.judge(GOES_ON * 60.0 - 1.0).state == RUNNING
    assert table.judge(1.0).state == STACKS


def test_all_serving_or_done_is_success():
    table = started(3)
    table.say("host0", state=cards.SERVING)
    table.say("host1", state=cards.DONE)
    assert table.judge().state == RUNNING
    table.say("host2", state=cards.SERVING)
    assert table.judge().ending.kind == SUCCEEDED


def test_a_node_that_serves_again_after_a_restart_is_not_taken_for_one_that_serves_now():
    table = started(2, RESTARTS)
    table.say("host0", state=cards.SERVING)
    table.fail("host1")
    table.judge()
    table.say("host0", state=cards.HERE)
    assert table.judge().state == GATHERING
    table.all_ready(1)
    assert table.judge().state == RUNNING
    table.say("host0", state=cards.SERVING, round=0)
    table.say("host1", state=cards.DONE)
    assert table.judge().state == RUNNING, "its word is of the round before"


@pytest.mark.parametrize("absence", [0.0, 2.5])
def test_a_serving_node_that_is_lost_is_missed(absence):
    table = started(2, absence=absence)
    table.say("host0", state=cards.SERVING)
    table.judge()
    del table.cards["host0"]
    table.judge()
    assert table.judge(absence).ending.reason == "host0 was lost"


def test_a_serving_node_that_was_lost_is_missed_though_the_others_are_done():
    table = started(2)
    table.say("host0", state=cards.SERVING)
    table.judge()
    del table.cards["host0"]
    table.say("host1", state=cards.DONE)
    assert table.judge().ending.kind == INCOMPLETE


def test_a_serving_node_has_not_answered_the_roll_call_until_it_says_so():
    table = started(2)
    table.say("host1", state=cards.SERVING)
    table.fail("host0")
    assert table.judge().state == ROLL_CALL
    assert table.judge().state == ROLL_CALL
    table.say("host1", state=cards.HERE, swept=True)
    assert table.judge().ending.kind == FAILED


def test_a_serving_node_does_not_keep_newcomers_out():
    table = started(2, RESTARTS, least=2, most=3)
    table.say("host0", state=cards.SERVING)
    table.join("late")
    assert table.judge().why == "late joined"


@pytest.mark.parametrize(("final", "kind"), [(True, FAILED), (False, None)])
def test_a_failure_that_is_final_ends_a_job_that_could_restart(final, kind):
    table = started(2, RESTARTS)
    table.fail("host1")
    (fault,) = table.cards["host1"].card.faults
    table.say("host1", faults=(replace(fault, role="server", final=final),))
    notice = table.after_roll_call()
    assert (notice.ending.kind if notice.ending else None) == kind


def test_at_level_0_nobody_leaves_after_a_failure_that_is_final():
    table = started(3, LEAVES, least=1, most=3)
    table.fail("host1")
    (fault,) = table.cards["host1"].card.faults
    table.say("host1", faults=(replace(fault, final=True),))
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
        table.join(host, roles=names, counts=(1, *[0] * (len(names) - 1)) if names else ())
    notice = table.judge()
    assert why in notice.refused["other"].why
    assert list(notice.refused) == ["other"]


def test_a_seat_has_the_counts_of_its_card():
    table = Table(0, least=2, most=2, roles=("server", "trainer"))
    table.join("host0", roles=("server", "trainer"), counts=(1, 0))
    table.join("host1", roles=("server", "trainer"), counts=(0, 2), ports=(1, 2, 3, 4, 5))
    notice = table.judge()
    assert [row.counts for row in notice.seats] == [(1, 0), (0, 2)]
    assert decode_notice(encode_notice(notice)) == notice


@pytest.mark.parametrize(
    ("facts", "sound"),
    [
        ({"roles": ("server", "trainer"), "counts": (1, 0)}, True),
        ({"roles": ("server", "trainer"), "counts": (0, 1)}, True),
        ({}, True),
        ({"roles": ("server", "trainer"), "counts": (1, 1)}, False),
        ({"roles": ("server", "trainer"), "counts": (0, 0)}, False),
        ({"roles": ("server", "trainer"), "counts": (2, -1)}, False),
        ({"roles": ("server", "trainer"), "counts": (1,)}, False),
        ({"roles": ("server",), "counts": (1, 0)}, False),
        ({"roles": ("server",)}, False),
        ({"counts": (1,)}, False),
        ({"roles": ("a\x1b[2J",), "counts": (1,)}, False),
        ({"roles": ("a" * 5000,), "counts": (1,)}, False),
    ],
)
def test_a_card_whose_counts_do_not_add_up_is_no_card(facts, sound):
    table = Table(1)
    table.say("host0", **facts)
    card = table.cards["host0"].card
    assert decode_card(encode_card(card)) == (card if sound else None)


def test_a_fault_says_which_role_failed_and_nothing_unprintable():
    table = started(1)
    table.fail("host0")
    card = table.cards["host0"].card
    (fault,) = card.faults
    named = replace(card, faults=(replace(fault, role="server", final=True),))
    assert decode_card(encode_card(named)) == named
    assert decode_card(encode_card(replace(card, faults=(replace(fault, role="\x07"),)))) is None


def test_cards_and_notices_survive_the_wire_and_nothing_else_does():
    table = started(2, RESTARTS)
    table.fail("host1")
    card = table.cards["host1"].card
    assert decode_card(encode_card(card)) == card
    assert decode_notice(encode_notice(table.judge())) == table.chair.notice
    for odd in ({"ports": (1, 2, 3, 70000)}, {"job": "a\x1b[2J"}, {"address": "10.0.0.1,evil"}, {"host": "h" * 9999}):
        assert decode_card(encode_card(replace(card, **odd))) is None
    hang = (replace(card.faults[0], code=124, cause="hung"),)
    for odd in ({"round": 1 << 63}, {"asks": 1 << 63}, {"faults": hang}, {"steps": (StepRow(0, 1e300),)}):
        assert decode_card(encode_card(replace(card, **odd))) is None
    for garbage in (
        b"",
        b"{}",
        b"[]",
        b"\xff",
        encode_card(replace(card, ports=(1, 2))),
        b'{"job":3}',
        encode_card(replace(card, host="a\x1b[2J")),
    ):
        assert decode_card(garbage) is None
        assert decode_notice(garbage) is None
    assert decode_card(encode_card(replace(card, faults=()))) is None, "failed, and nothing to blame"
