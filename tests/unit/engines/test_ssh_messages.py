"""Lines between the launcher and a node."""

from __future__ import annotations

import pytest

from flota.engines.ssh_messages import MARK, Go, Hello, UnreadableLine, clock_error, decode, encode


def test_a_message_is_one_line_with_any_text_in_it():
    go = Go(["train.py", "two\nlines", "caf\udce9"], "token", {"A": "1"})

    line = encode(go)

    assert line.count(b"\n") == 1
    assert decode(MARK + line, Go) == go


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff",
        b"[]",
        b"7",
        b"{}",
        b'{"version": 7}',
        b'{"version": "1", "more": 1}',
        b'{"version": {}}',
        b"[" * 100_000,
    ],
)
def test_a_line_that_is_no_message_is_one_error(line):
    with pytest.raises(UnreadableLine):
        decode(MARK + line, Hello)


def test_the_token_is_not_shown():
    assert "token" not in repr(Go([], "token", {}))


def test_a_clock_is_wrong_if_it_shows_a_time_before_or_after_it_was_read():
    assert clock_error(100.0, 101.0, 100.5) == 0
    assert clock_error(100.0, 101.0, 104.0) == 3
    assert clock_error(100.0, 101.0, 98.0) == -2
