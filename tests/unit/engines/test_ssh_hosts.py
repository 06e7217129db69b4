"""Hosts as users write them: on the command line, as groups, and in hostfiles."""

from __future__ import annotations

import pytest

from flota.engines.ssh_hosts import SshHost, read_hostfile, read_hosts
from flota.errors.hosts import BadHostfileLine, BadHosts, EmptyHostfile


def named(text, groups=None):
    return [(host.name, host.workers) for host in read_hosts("--hosts", text, groups or {})]


def test_hosts_have_counts_ranges_and_users():
    assert named("a,b:8") == [("a", None), ("b", 8)]
    assert named("gpu[01-03]:4,me@login") == [("gpu01", 4), ("gpu02", 4), ("gpu03", 4), ("me@login", None)]
    assert named("fd00::1,10.0.0.1:2") == [("fd00::1", None), ("10.0.0.1", 2)]


def test_a_group_is_replaced_by_its_hosts():
    groups = {"lab": "gpu[1-2]", "mixed": ["a:2", "b"]}

    assert named("lab", groups) == [("gpu1", None), ("gpu2", None)]
    assert named("lab:8,mixed", groups) == [("gpu1", 8), ("gpu2", 8), ("a", 2), ("b", None)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,,b", "a name is empty"),
        ("gpu[1-", "brackets do not match"),
        ("a:x", "`x` is not a number of workers"),
        ("a:0", "`0` is not a number of workers"),
        ("a,b,a", "a occurs twice"),
        ("-oProxyCommand=evil", "`-oProxyCommand=evil` is not a host"),
        ("a b", "`a b` is not a host"),
        ("bad", "the group `bad` is not a list of hosts"),
    ],
)
def test_what_is_not_a_list_of_hosts_is_an_error(text, why):
    with pytest.raises(BadHosts, match=why.replace("(", r"\(")):
        named(text, {"bad": 3})


def test_a_host_without_its_user_is_a_label():
    assert SshHost("me@gpu01").label == "gpu01"


def test_hostfiles_of_other_launchers_are_read():
    text = """
    # a comment
    gpu01 slots=8 max_slots=16   # Open MPI
    gpu02 slots=4
    gpu03:2
    gpu04
    """

    assert [tuple(host) for host in read_hostfile("hosts", text)] == [
        ("gpu01", 8),
        ("gpu02", 4),
        ("gpu03", 2),
        ("gpu04", None),
    ]


def test_a_host_that_is_listed_several_times_has_as_many_workers():
    assert [tuple(host) for host in read_hostfile("nodes", "a\nb\na\na\n")] == [("a", 3), ("b", None)]
    assert [tuple(host) for host in read_hostfile("nodes", "a slots=2\na slots=3\n")] == [("a", 5)]


@pytest.mark.parametrize("line", ["b slots=x", "b 8", "b cores=8", "b slots=0", "-b"])
def test_a_malformed_line_is_named_with_its_number(line):
    with pytest.raises(BadHostfileLine, match="hosts, line 3: "):
        read_hostfile("hosts", f"a\n\n{line}\n")


def test_a_hostfile_without_hosts_is_an_error():
    with pytest.raises(EmptyHostfile, match="hosts names no hosts"):
        read_hostfile("hosts", "# none\n\n")
