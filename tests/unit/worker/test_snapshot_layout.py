"""The bytes of a snapshot: any write that stops half way leaves the states before it."""

from __future__ import annotations

import pytest

from flota.worker import snapshot_layout as layout
from flota.worker.snapshot_layout import BUFFER_ALIGNMENT, EMPTY, MAGIC, PAGE, Entry

SIZE = 8 * BUFFER_ALIGNMENT


def state(step: int, buffer: int, **changes: int) -> Entry:
    at = (1 + buffer) * BUFFER_ALIGNMENT
    return Entry(step, step + 1, at, BUFFER_ALIGNMENT, 64, 100, 3, 4)._replace(**changes)


def page_of(*entries: Entry) -> bytearray:
    page = bytearray(PAGE)
    page[: len(MAGIC)] = MAGIC
    for buffer, entry in enumerate(entries):
        put(page, buffer, entry)
    return page


def put(page: bytearray, buffer: int, entry: Entry) -> None:
    packed, at = layout.pack_entry(entry), layout.entry_at(buffer)
    page[at : at + len(packed)] = packed


def test_an_entry_comes_back():
    entries = [state(7, 0), state(8, 1, sharded=1), state(9, 2, complete=0)]

    assert layout.read_entries(bytes(page_of(*entries)), SIZE) == [*entries, EMPTY]


def test_a_write_that_stops_at_any_byte_leaves_the_states_before():
    """Both phases of a write into the buffer with the oldest state, torn after each byte."""
    before = [state(7, 0), state(8, 1), state(9, 2)]
    begun, whole = state(10, 0, complete=0), state(10, 0)
    for first, then in ((before[0], begun), (begun, whole)):
        for torn in range(len(layout.pack_entry(then)) + 1):
            page = page_of(first, *before[1:])
            at = layout.entry_at(0)
            page[at : at + torn] = layout.pack_entry(then)[:torn]

            steps = layout.complete_steps(layout.read_entries(bytes(page), SIZE))

            assert {8, 9} <= steps.keys() <= {7, 8, 9, 10}
            assert 10 not in steps or then == whole


@pytest.mark.parametrize(
    "entry",
    [
        state(7, 0, offset=SIZE),
        state(7, 0, capacity=SIZE),
        state(7, 0, tree_size=BUFFER_ALIGNMENT),
        state(7, 0, offset=100),
        state(7, 0, tree_at=1 << 60),
    ],
)
def test_an_entry_that_leads_out_of_the_file_is_ignored(entry):
    assert layout.read_entry(bytes(page_of(entry)), 0, SIZE) == EMPTY


@pytest.mark.parametrize("page", [b"", MAGIC, bytes(PAGE), MAGIC + bytes(300)])
def test_what_is_not_a_snapshot_has_no_states(page):
    assert layout.complete_steps(layout.read_entries(page, SIZE)) == {}


def test_the_oldest_state_that_is_not_kept_is_overwritten():
    entries = [state(7, 0), state(9, 1), state(8, 2)]

    assert [layout.choose_buffer(entries, kept) for kept in (set(), {0}, {2}, {0, 2})] == [0, 2, 0, 1]
    assert layout.choose_buffer([state(7, 0), state(9, 1), state(8, 2, complete=0)], set()) == 2
    assert layout.choose_buffer([state(7, 0), EMPTY, state(8, 2)], set()) == 1


def test_the_last_two_states_that_are_sent_are_kept():
    entries = [state(16, 0), state(24, 1), state(32, 2), state(33, 3)]

    assert layout.kept_buffers(entries, 8) == {1, 2}
    assert layout.kept_buffers(entries, 16) == {0, 2}
    assert layout.kept_buffers(entries, 0) == set()


def test_a_buffer_that_is_too_small_moves_to_the_end_of_the_file():
    entries = [state(7, 0), state(8, 1), state(9, 2)]

    assert layout.place_buffer(entries, 1, 1000, SIZE) == (2 * BUFFER_ALIGNMENT, BUFFER_ALIGNMENT)
    offset, capacity = layout.place_buffer(entries, 1, 3 * BUFFER_ALIGNMENT, SIZE)
    assert offset == SIZE
    assert capacity >= 3 * BUFFER_ALIGNMENT


def test_the_stride_is_read_as_it_was_written():
    page = page_of()
    page[layout.STRIDE_AT : layout.STRIDE_AT + 8] = layout.pack_stride(64)

    assert layout.read_stride(bytes(page)) == 64
    assert layout.read_stride(bytes(PAGE)) == 0
