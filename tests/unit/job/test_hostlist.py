"""Slurm's notation for lists of hosts."""

from __future__ import annotations

import re

import pytest

from flota.job.hostlist import expand_hosts


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu01", "gpu01"),
        ("gpu[01-02]", "gpu01 gpu02"),
        ("gpu[01-03,07],login1", "gpu01 gpu02 gpu03 gpu07 login1"),
        ("gpu[8-11]", "gpu8 gpu9 gpu10 gpu11"),
        ("gpu[098-101]", "gpu098 gpu099 gpu100 gpu101"),
        ("rack[1-2]node[1,3]-ib", "rack1node1-ib rack1node3-ib rack2node1-ib rack2node3-ib"),
        ("a, b", "a b"),
        ("10.0.0.1,10.0.0.[2-3]", "10.0.0.1 10.0.0.2 10.0.0.3"),
    ],
)
def test_hosts_are_expanded_in_order(text, hosts):
    assert expand_hosts(text) == hosts.split()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a name is empty"),
        ("a,,b", "a name is empty"),
        ("gpu[01-02", "brackets do not match"),
        ("gpu01-02]", "brackets do not match"),
        ("gpu[[1]]", "brackets do not match"),
        ("gpu[]", "`` is not a number or a range"),
        ("gpu[a-b]", "`a-b` is not a number or a range"),
        ("gpu[1-]", "`1-` is not a number or a range"),
        ("gpu[2-1]", "the range `2-1` ends before it begins"),
        ("gpu[0-99999999999]", "more than 65536 hosts"),
        ("a[0-999]b[0-999]", "more than 65536 hosts"),
    ],
)
def test_anything_else_is_refused_with_the_reason(text, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        expand_hosts(text)
