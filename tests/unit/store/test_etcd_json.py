"""What answers of an etcd mean, where its codes do not tell."""

from __future__ import annotations

import pytest

from flota.store.etcd_json import TEMPORARY, UNKNOWN, Range, Refusal, encode_error, read_answer


@pytest.mark.parametrize(
    ("words", "is_temporary"),
    [("raft: stopped", True), ("etcdserver: server stopped", True), ("etcdserver: no such thing", False)],
)
def test_a_member_that_leaves_is_not_a_reason_to_give_up(words, is_temporary):
    answer = read_answer(500, encode_error(UNKNOWN, words), Range())

    assert isinstance(answer, Refusal)
    assert answer.words == words
    assert (answer.code in TEMPORARY) == is_temporary
