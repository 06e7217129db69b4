"""What a job on Ray creates, and what is said about the cluster's room."""

from __future__ import annotations

import sys

import pytest

from flota.engines.ray import (
    LONGEST_LINE,
    OPTIONS,
    NodeOutput,
    RayJob,
    count_places,
    describe_wait,
    node_words,
    observe,
    plan,
)
from flota.errors import BadValue
from tests.unit.engines import JOB

HOST = {"Alive": True, "Resources": {"CPU": 64.0, "GPU": 8.0, "memory": 1e12}}
SMALL = {"Alive": True, "Resources": {"CPU": 64.0}}
LOST = {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}}


def planned(job=JOB, **chosen):
    defaults = {option.name.replace("-", "_"): option.default for option in OPTIONS}
    return plan(job, {**defaults, **chosen})


def test_the_plan_shows_the_group_and_the_commands():
    assert planned(gpus=8, cpus=16).text.splitlines() == [
        "# a placement group of 4 bundles, which ends with this command",
        "strategy: STRICT_SPREAD",
        "bundle: {CPU: 16, GPU: 8}",
        "# in each bundle an actor that runs one node, in /home/alice/my work: first node 0, then the others",
        "python -m flota --nnodes=4 --master=HOST_0:PORT --rdzv_conf=is_host=true --nproc_per_node=8 train.py --name 'it'\"'\"'s'",
        "python -m flota --nnodes=4 --master=HOST_0:PORT --rdzv_conf=is_host=false --nproc_per_node=8 train.py --name 'it'\"'\"'s'",
    ]


def test_only_node_0_serves_the_master():
    served = [node_words(planned(), "10.0.0.7:4100", index)[1:3] for index in range(3)]

    assert served == [["--master=10.0.0.7:4100", f"--rdzv_conf=is_host={word}"] for word in ("true", "false", "false")]


def test_a_single_node_has_no_master():
    assert node_words(planned(JOB._replace(least=1, most=1)), "", 0) == ["--nnodes=1", *JOB.words]


def test_a_range_of_nodes_is_passed_on():
    elastic = planned(JOB._replace(least=2))

    assert node_words(elastic, "a:1", 0)[0] == "--nnodes=2:4"
    assert "2 to 4 bundles" in elastic.text


def test_a_copied_directory_replaces_the_one_of_the_command():
    copied = planned(working_dir=".")

    assert copied.directory == ""
    assert "in Ray's copy of .:" in copied.text


def test_other_resources_are_whole_numbers():
    assert planned(pack=True, resource=(("NPU", "8"),)).bundle == {"CPU": 1, "NPU": 8}
    assert planned(pack=True).strategy == "PACK"
    for wrong in (("NPU", "many"), ("GPU", "8")):
        with pytest.raises(BadValue, match="--resource"):
            planned(resource=(wrong,))


def test_the_token_is_not_shown():
    assert "secret" not in planned().text + repr(planned())


def test_output_is_always_shown():
    assert observe(JOB, {"follow": False})["follow"] is True


@pytest.mark.parametrize(
    ("bundle", "spread", "packed"),
    [({"CPU": 16, "GPU": 4}, 2, 4), ({"CPU": 64}, 3, 3), ({"GPU": 9}, 0, 0), ({"CPU": 1, "NPU": 1}, 0, 0)],
)
def test_places_are_counted_on_hosts_that_are_alive(bundle, spread, packed):
    hosts = [HOST, HOST, SMALL, LOST]

    assert count_places(hosts, bundle, pack=False) == spread
    assert count_places(hosts, bundle, pack=True) == packed


def test_the_line_about_waiting_says_what_is_missing():
    line = describe_wait(planned(gpus=8), 2, {"CPU": 128.0, "GPU": 16.0}, {"CPU": 127.0})

    assert line == (
        "waiting for 4 nodes with 1 CPU and 8 GPU each; the cluster has places for 2; 127 of 128 CPU and 0 of 16 GPU free"
    )


def job_after(codes, lost=(), *, stopping=False):
    job = RayJob(None, None, [], [], elastic=False)
    job.codes, job.lost, job.stopping = dict(codes), set(lost), stopping
    return job.code


def test_the_exit_code_is_node_0s_or_that_of_a_node_that_is_left():
    assert job_after({1: 7, 0: 3}) == 3
    assert job_after({2: 9, 1: 7}, lost=[0]) == 7
    assert job_after({}, lost=[0, 1]) == 75


def test_a_job_that_stopped_because_of_a_lost_node_may_be_tried_again():
    assert job_after({0: 143}, lost=[1]) == 75
    assert job_after({0: 143}, lost=[1], stopping=True) == 143
    assert job_after({0: 143}) == 143


def test_spares_need_places_as_well():
    spared = planned(JOB._replace(spares=1))

    assert "a placement group of 5 bundles" in spared.text
    assert "waiting for 5 nodes" in describe_wait(spared, 4, {"CPU": 4}, {"CPU": 0})
    assert node_words(spared, "a:1", 0)[0] == "--nnodes=4"
    assert "2 to 5 bundles" in planned(JOB._replace(least=2, spares=1)).text
    assert node_words(planned(JOB._replace(least=1, most=1, spares=1)), "a:1", 1)[1] == "--master=a:1"


def test_lines_of_several_nodes_do_not_mix(capfdbinary):
    output = NodeOutput()

    output.show(0, [(1, b"zero"), (2, b"flota: begins\nflota: ")])
    output.show(1, [(1, b"one"), (2, b"flota: the same message\n")])
    output.show(0, [(1, b" ends\n10%\r20"), (2, b"ends")])
    output.show(1, [(1, b" ends\n")])
    output.show(2, [(1, b"x" * (LONGEST_LINE + 1))])
    for index in range(3):
        output.end(index)

    sys.stdout.flush()
    out, err = capfdbinary.readouterr()
    assert out == b"zero ends\n10%\rone ends\nx20" + b"x" * LONGEST_LINE
    assert err == b"flota: begins\nflota: ends"
