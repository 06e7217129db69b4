"""Whatever the chunks, the lines come out whole and as they were."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flota.logs.follow import prefixed, split_at_last_line

chunks = st.lists(st.binary(max_size=40) | st.sampled_from([b"\n", b"a\n", b"\r", b"\n\n"]), max_size=20)


@given(chunks)
def test_prefixed_lines_are_the_same_lines(pieces):
    shown, partial = b"", b""
    for piece in pieces:
        body, partial = split_at_last_line(partial + piece)
        shown += b"".join(bytes(part) for part in prefixed(body, b"[x:1] "))
    whole = b"".join(pieces)

    expected = b"".join(b"[x:1] " + line + b"\n" for line in whole.split(b"\n")[:-1])
    assert shown == expected
    assert partial == whole.split(b"\n")[-1]


@given(st.binary())
def test_without_a_prefix_bytes_pass_unchanged(data):
    assert b"".join(prefixed(data, b"")) == data
