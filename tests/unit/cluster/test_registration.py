"""How a node registers in the store: when it asks again."""

from __future__ import annotations

import pytest

from flota.cluster.registration import FIRST_RETRY, RETRY, Registration
from flota.store.client_connection import Lost
from flota.store.etcd_json import Header, LeaseAnswer
from flota.store.keys import keys_of


class Answers:
    """Answers each request at once, with what comes next."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    def ask(self, _request, then, _now):
        then(self.answers.pop(0))

    def watch(self, *_):
        pass


LOST = Lost("host1:8090: connection refused")
GRANTED = LeaseAnswer(Header(), id="7", ttl="5")


def delays(*answers: object) -> list[float]:
    """How long it waits after each lost request."""
    now, found = 0.0, []
    registration = Registration(Answers(*answers), keys_of(None), "n", 5, may_coordinate=False, clock=lambda: now)
    registration.publish_record(b"{}")
    while registration.deadline is not None and len(found) < sum(answer is LOST for answer in answers):
        found.append(registration.deadline - now)
        now = registration.deadline
        registration.reconcile()
    return found


def test_a_node_that_is_there_before_the_master_asks_again_soon_then_less_often():
    assert delays(*[LOST] * 7, GRANTED) == pytest.approx([FIRST_RETRY * factor for factor in (1, 2, 4, 8, 16, 20, 20)])


def test_a_store_that_has_answered_once_gets_more_time():
    registration = Registration(Answers(GRANTED), keys_of(None), "n", 5, may_coordinate=False, clock=lambda: 0.0)
    registration.publish_record(b"{}")
    registration._client = Answers(LOST)
    registration.leave()

    assert registration.deadline == RETRY
