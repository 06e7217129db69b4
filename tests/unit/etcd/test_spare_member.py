"""When a member counts as lost for good, and where members are."""

from __future__ import annotations

import pytest

from flota.etcd.spare_member import LOST_AFTER, MissingMembers, place_of
from flota.job.nodes import Place
from flota.store.etcd_json import EtcdMember


def test_a_member_is_lost_after_a_long_silence_without_a_gap():
    missing = MissingMembers()

    assert missing.find_lost(["1", "2"], 0.0) == ""
    assert missing.find_lost(["2"], 20.0) == ""
    assert missing.find_lost(["1", "2"], LOST_AFTER - 1) == ""
    assert missing.find_lost(["1", "2"], LOST_AFTER) == "2"


@pytest.mark.parametrize(
    ("urls", "place"),
    [
        (["http://gpu01:8091"], Place("gpu01", 8090)),
        (["https://[fd00::1]:8091", "http://other:1"], Place("fd00::1", 8090)),
        ([], None),
        (["gpu01"], None),
        (["http://gpu01:port"], None),
        (["http://gpu01:99999"], None),
        (["http://[gpu01"], None),
    ],
)
def test_a_member_answers_clients_at_the_port_before(urls, place):
    assert place_of(EtcdMember("1", "", urls)) == place
