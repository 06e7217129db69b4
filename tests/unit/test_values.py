"""Values behave as named tuples do, and are equal only within one type."""

from __future__ import annotations

import pytest

from flota.values import NamedTuple


class Point(NamedTuple):
    x: int
    y: int = 2

    @property
    def sum(self) -> int:
        return self.x + self.y


class Other(NamedTuple):
    x: int
    y: int


def test_fields_have_names_and_defaults():
    assert (Point(1).x, Point(1).y, Point(1, y=5).y, Point(x=3).sum) == (1, 2, 5, 5)


def test_values_of_two_types_differ():
    assert Point(1, 2) == Point(1, 2)
    assert Point(1, 2) != Other(1, 2)
    assert Point(1, 2) != (1, 2)
    assert len({Point(1, 2), Point(1, 2), Other(1, 2)}) == 2


def test_replace_makes_another_value():
    assert Point(1)._replace(y=9) == Point(1, 9)


def test_values_match_by_position():
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


@pytest.mark.parametrize("make", [lambda: Point(), lambda: Point(1, 2, 3), lambda: Point(1, z=3)])
def test_wrong_fields_are_refused(make):
    with pytest.raises((TypeError, KeyError)):
        make()


def test_values_cannot_be_changed():
    with pytest.raises(AttributeError):
        Point(1).x = 5


def test_values_show_their_fields():
    assert repr(Point(1)) == "Point(x=1, y=2)"
