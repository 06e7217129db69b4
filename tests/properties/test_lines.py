"""Whatever the chunks, the lines come out whole and as they were."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from flota.logs.follow import prefixed, split_lines
from flota.logs.progress_bars import ProgressBars, last_state
from tests.terminal import Terminal

BAR_PIECES = [b"\n", b"a\n", b"\r", b"\n\n", b"\r\n", b"\r 10%", b"\x1b[A", b"\x1b[A\n", b"\x1b[32m", b"\b", b"text"]
chunks = st.lists(st.binary(max_size=40) | st.sampled_from(BAR_PIECES), max_size=20)
plain_chunks = st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\r", b"")), max_size=20)
cuts = st.lists(st.integers(0, 400), max_size=20)
# A terminal is only protected from the cursor movements of bars.
SAFE_PIECES = [
    b"\n",
    b"a\n",
    b"\r",
    b"\r\n",
    b"\r 10%",
    b"\r 10%\x1b[A",
    b"\r\x1b[A\n",
    b"\r\x1b[32m 30%",
    b"\r 20%\b",
    b"text",
]
rank_chunks = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(SAFE_PIECES), st.booleans()), max_size=40)


def split(pieces):
    """The lines of a whole stream, and the state of its last, unfinished line."""
    shown, partial = b"", b""
    for piece in pieces:
        body, partial = split_lines(partial + piece)
        shown += body
    return shown, partial


@given(plain_chunks)
def test_plain_lines_are_the_same_lines(pieces):
    shown, partial = split(pieces)
    whole = b"".join(pieces)

    assert shown == whole[: whole.rfind(b"\n") + 1]
    assert partial == whole[whole.rfind(b"\n") + 1 :]


@given(chunks, cuts)
def test_lines_and_bars_do_not_depend_on_the_chunks(pieces, places):
    whole = b"".join(pieces)
    edges = [0, *sorted(min(place, len(whole)) for place in places), len(whole)]

    lines, rest = split([whole[begin:end] for begin, end in pairwise(edges)])
    expected, unfinished = split([whole])

    assert lines == expected
    assert last_state(rest) == last_state(unfinished)


@given(chunks)
def test_shown_lines_have_no_carriage_return(pieces):
    lines, rest = split(pieces)

    assert b"\r" not in lines
    assert b"\r" not in last_state(rest)


@given(plain_chunks, st.sampled_from([b"", b"[x:1] "]))
def test_each_line_gets_the_prefix(pieces, prefix):
    lines = b"".join(pieces) + b"\n"

    shown = b"".join(bytes(part) for part in prefixed(lines, prefix))

    assert shown == b"".join(prefix + line + b"\n" for line in lines.split(b"\n")[:-1])


@given(rank_chunks)
def test_a_terminal_shows_all_lines_and_then_the_last_bars(pieces):
    bars, terminal = ProgressBars(terminal=True), Terminal(height=6, width=300)
    partial, lines = [b""] * 4, []
    for rank, piece, draws in pieces:
        prefix = b"[h:%d] " % rank
        body, partial[rank] = split_lines(partial[rank] + piece)
        bars.update(rank, prefix, partial[rank], 0.0)
        if body:
            lines += [prefix.decode() + line for line in body.decode().split("\n")[:-1]]
            terminal.feed(b"".join(bytes(part) for part in bars.show_lines(6, prefixed(body, prefix))))
        if draws:
            terminal.feed(b"".join(bars.draw(6)))
    terminal.feed(b"".join(bars.draw(6)))

    states = [(rank, last_state(line).decode()) for rank, line in enumerate(partial) if b"\r" in line]
    expected = lines + [f"[h:{rank}] {state}" for rank, state in states if state.strip()]
    assert terminal.text == [without_colours(line).rstrip() for line in expected]


def without_colours(line):
    return line.replace("\x1b[32m", "")
