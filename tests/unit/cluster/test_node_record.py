"""Anyone who knows the token can write anything: node records survive the wire, and nothing else does."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flota.cluster.node_record import FAILED, decode_record, encode_record
from flota.job.report import FailedWorker
from flota.stragglers.detector import StepTime
from tests.rosters import ports_of
from tests.surveys import answer_of, record_of

FAULT = FailedWorker(1, 0, "host0", 1, 3, "exited", "exit code 3", 1.0, "log", role="server", final=True)
WHOLE = record_of(
    state=FAILED,
    failures=(FAULT,),
    steps=(StepTime(0, 0.2),),
    answer=answer_of(3, "steps", b"[]"),
    requests={"steps": 2},
)
SERVERS = ("server", "trainer")


def test_a_record_survives_the_wire():
    assert decode_record(encode_record(WHOLE)) == WHOLE


@pytest.mark.parametrize(
    ("facts", "sound"),
    [
        ({"roles": SERVERS, "workers_by_role": (1, 0)}, True),
        ({"roles": SERVERS, "workers_by_role": (0, 1)}, True),
        ({}, True),
        ({"roles": SERVERS, "workers_by_role": (1, 1)}, False),
        ({"roles": SERVERS, "workers_by_role": (0, 0)}, False),
        ({"roles": SERVERS, "workers_by_role": (2, -1)}, False),
        ({"roles": SERVERS, "workers_by_role": (1,)}, False),
        ({"roles": ("server",), "workers_by_role": (1, 0)}, False),
        ({"roles": ("server",)}, False),
        ({"workers_by_role": (1,)}, False),
        ({"roles": ("a\x1b[2J",), "workers_by_role": (1,)}, False),
        ({"roles": ("a" * 5000,), "workers_by_role": (1,)}, False),
    ],
)
def test_a_record_whose_counts_do_not_add_up_is_refused(facts, sound):
    record = record_of(**facts)

    assert decode_record(encode_record(record)) == (record if sound else None)


@pytest.mark.parametrize(
    "bad",
    [
        {"ports": ports_of(1, 2, 3, 70000)},
        {"ports": ports_of(1, 2, 3)},
        {"job": "a\x1b[2J"},
        {"host": "a\x1b[2J"},
        {"host": "h" * 9999},
        {"address": "10.0.0.1,evil"},
        {"round": 1 << 63},
        {"answer": answer_of(1 << 31, "steps", b"[]")},
        {"requests": {"steps": 1 << 63}},
        {"failures": ()},  # failed, and nothing to blame
        {"failures": (FAULT._replace(code=124, cause="hung"),)},  # the coordinator's to say
        {"failures": (FAULT._replace(cause="another"),)},
        {"failures": (FAULT._replace(role="\x07"),)},
        {"steps": (StepTime(0, 1e300),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_record_that_cannot_be_true_is_refused(bad):
    assert decode_record(encode_record(replace(WHOLE, **bad))) is None


@pytest.mark.parametrize("garbage", [b"", b"{}", b"[]", b"\xff", b'{"job":3}', b"[" * 100_000], ids=len)
def test_what_is_not_a_record_is_refused(garbage):
    assert decode_record(garbage) is None
