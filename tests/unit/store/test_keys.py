"""Jobs that share a store do not see each other's entries."""

from __future__ import annotations

from itertools import permutations

from flota.store.keys import end_of, keys_of


def test_no_jobs_keys_are_in_anothers_range():
    jobs = ["a", "a/nodes", "a/coordinator", "a%2Fnodes", "ab", "", "a b", "\u4efb\u52a1"]
    for one, other in permutations(map(keys_of, jobs), 2):
        for begin in (one.nodes, one.coordinator):
            for key in (other.nodes, other.coordinator, other.job_state):
                assert not begin <= key < end_of(begin), f"{key} is in the range of {begin}"


def test_one_job_alone_needs_no_name():
    assert keys_of(None).coordinator == b"/flota/coordinator"
