"""Damaged messages for tests: a valid message with a value replaced, bytes inserted, or a part cut out."""

from __future__ import annotations

import re

from hypothesis import strategies as st

# What a JSON value may be replaced with.
BAD_VALUES = (
    *(b'"\xff"', b'"abc"', b'""', b"null", b"true", b"[]", b"{}", b"-1", b'"-1"', b"1e999", b"NaN", b"0.5", b"[[]]"),
    *(b"9" * 5000, b'"%s"' % (b"9" * 5000), b'"9999999999999999999"', b"[" * 3000, b'"\\ud800"', b'"\\u0000"'),
    *(b'"\\r\\nx: y"', b'"\\u001b[2J"', b'"%s"' % (b"A" * 20_000), b"1.5e", b"'a'"),
)
VALUE = re.compile(rb'(?<=:)(?:"[^"]*"|-?[0-9]+|true|false)')
chunks = st.one_of(
    st.binary(max_size=20), st.sampled_from(BAD_VALUES), st.sampled_from([b"\r\n", b"\xff", b"\0", b"{"])
)


@st.composite
def damaged(draw: st.DrawFn, message: bytes) -> bytes:
    """The message with one to three changes."""
    for _ in range(draw(st.integers(1, 3))):
        values = [found.span() for found in VALUE.finditer(message)]
        if values and draw(st.integers(0, 2)):
            begin, end = draw(st.sampled_from(values))
            new = draw(st.sampled_from(BAD_VALUES))
        else:
            begin = draw(st.integers(0, len(message)))
            end = draw(st.integers(begin, min(len(message), begin + 40)))
            new = draw(chunks)
        message = message[:begin] + new + message[end:]
    return message
