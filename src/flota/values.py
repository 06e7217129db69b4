"""Immutable values that are cheap to define.

A type checker sees `typing.NamedTuple`. At run time it is a small replacement: importing typing would add 12 ms to the
start, and `collections.namedtuple` compiles code for each class, 0.2 ms each. Unlike plain tuples, two values are equal
only if they have the same type: an event never equals an action. msgspec recognises them as named tuples by `_fields`
and `_field_defaults`, so messages between nodes need no second set of types.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414  re-exported
else:
    from _operator import itemgetter

    class _Maker(type):
        def __new__(cls, name, bases, namespace):
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {field: namespace[field] for field in fields if field in namespace}
            getters = {field: property(itemgetter(position)) for position, field in enumerate(fields)}
            return super().__new__(
                cls,
                name,
                bases,
                {
                    **namespace,
                    **getters,
                    "_fields": fields,
                    "__match_args__": fields,
                    "_field_defaults": defaults,
                    "__slots__": (),
                },
            )

    class NamedTuple(tuple, metaclass=_Maker):
        def __new__(cls, *values, **named):
            fields = cls._fields
            if named or len(values) < len(fields):
                given = {**cls._field_defaults, **dict(zip(fields, values)), **named}
                values = [given.pop(field) for field in fields]
                if given:
                    raise TypeError(f"{cls.__name__} has no field {', '.join(given)}")
            if len(values) != len(fields):
                raise TypeError(f"{cls.__name__} takes {len(fields)} values, not {len(values)}")
            return tuple.__new__(cls, values)

        def __eq__(self, other):
            return type(self) is type(other) and tuple.__eq__(self, other)

        def __ne__(self, other):
            return not self == other

        __hash__ = tuple.__hash__

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            pairs = (f"{field}={value!r}" for field, value in zip(self._fields, self))
            return f"{type(self).__name__}({', '.join(pairs)})"

        def _replace(self, **named):
            return type(self)(**{**dict(zip(self._fields, self)), **named})
