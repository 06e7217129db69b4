"""What all nodes of a job must agree on, as a table: what differs, and what the node is told."""

from __future__ import annotations

import pytest

from flota.cluster.gathering import joined_in_words
from flota.cluster.terms import Terms, blank_record, disagreement, terms_of
from flota.job.nodes import NodesSpec
from flota.job.roles import MIXED, PS, Role
from flota.job.spec import Command, JobSpec, LogSpec
from tests.surveys import present_of

SERVERS, TRAINERS = Role("server", 1, endpoints=("a:1",)), Role("trainer", 1, endpoints=("a:2",))
NODES = NodesSpec(2, 2)
COMMAND = Command("script", "train.py", (), "python")
JOB = JobSpec(COMMAND, 2, LogSpec("/log"), frameworks=("torch",), roles=(SERVERS, TRAINERS), mode=PS, gloo_port=6767)
OTHER_LISTS = "its address lists (also in --master), --gloo_port or --with_gloo differ from this job's"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"job_id": "other"}, "its job id is `other`, this job's is `default`"),
        ({"frameworks": ("jax",)}, "it uses jax, this job uses torch"),
        ({"roles": ()}, "it has only trainers, this job has the roles server, trainer"),
        ({"roles": (TRAINERS,)}, "it has the roles trainer, this job has the roles server, trainer"),
        ({"mode": MIXED}, "its run mode is mixed, this job's is ps"),
        ({"roles": (SERVERS._replace(endpoints=("a:3",)), TRAINERS)}, OTHER_LISTS),
        ({"gloo_port": 7007}, OTHER_LISTS),
        ({"gloo": "1"}, OTHER_LISTS),
    ],
)
def test_a_node_that_differs_gets_the_difference(changes, why):
    record = blank_record(JOB._replace(**changes), NODES, "host2", serves=False)

    assert disagreement(record, terms_of(JOB, NODES)) == why


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (NodesSpec(3, 3), "it expects 3 nodes, this job expects 2"),
        (NodesSpec(1, 2), "it expects 1:2 nodes, this job expects 2"),
        (NodesSpec(2, 2, rank=2), "rank 2 is out of range in a job of 2 nodes"),
    ],
)
def test_a_node_with_another_count_gets_an_error(nodes, why):
    assert disagreement(blank_record(JOB, nodes, "host2", serves=False), terms_of(JOB, NODES)) == why


@pytest.mark.parametrize(
    ("here", "hosts", "words"),
    [
        ({"a": -1, "b": -1}, (), "2 of 3 joined (a, b)"),
        ({"a": 2}, (), "1 of 3 joined (a); missing ranks 0, 1"),
        ({"a": -1}, ("10.0.0.1", "10.0.0.2", "10.0.0.3"), "1 of 3 joined (a); missing 10.0.0.2, 10.0.0.3"),
    ],
)
def test_missing_nodes_are_named_by_address_or_rank_if_known(here, hosts, words):
    present = [present_of(host, rank=rank) for host, rank in here.items()]

    assert joined_in_words(present, Terms("job", 3, 3, ("torch",), hosts=hosts)) == words


def test_hosts_with_one_name_are_told_apart_by_their_addresses():
    present = [present_of("vm", address=f"10.0.0.{number}") for number in (1, 2)]

    assert joined_in_words([*present, present_of("gpu")], Terms("job", 4, 4, ("torch",))) == (
        "3 of 4 joined (gpu, vm (10.0.0.1), vm (10.0.0.2))"
    )
