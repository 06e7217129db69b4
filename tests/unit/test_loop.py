"""The loop calls back for what is ready, and only for that."""

from __future__ import annotations

import os

from flota.host.loop import Loop


def test_a_descriptor_that_changes_hands_within_a_turn_is_not_called_for_the_old_one():
    loop = Loop()
    first, first_end = os.pipe()
    second, second_end = os.pipe()
    called = []

    def hand_over(own, other):
        """Whichever comes first gives the other's number to somebody new, who has nothing to read."""
        called.append(own)
        loop.forget(other)
        loop.watch(other, lambda: called.append("new"))

    loop.watch(first, lambda: hand_over("first", second))
    loop.watch(second, lambda: hand_over("second", first))
    os.write(first_end, b"x")
    os.write(second_end, b"x")

    loop.turn(1)

    assert len(called) == 1
    assert "new" not in called
    for fd in (first, first_end, second, second_end):
        os.close(fd)
