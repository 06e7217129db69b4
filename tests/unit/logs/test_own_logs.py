"""flota's own JSON is what the json module would read back."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from flota.logs.own_logs import to_json, to_json_lines

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(values)
def test_one_line_reads_back(value):
    line = to_json(value)

    assert json.loads(line) == value
    assert "\n" not in line


@given(st.dictionaries(st.text(), values, min_size=1))
def test_readable_reads_back(value):
    assert json.loads(to_json_lines(value)) == value
