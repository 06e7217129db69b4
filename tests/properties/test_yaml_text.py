"""Whatever a manifest contains, its YAML reads back as what was written."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from flota.engines.yaml_text import write_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.text("ab:-#|> \n\t'\"\\01.e", max_size=12)
SCALARS = TEXTS | st.integers() | st.booleans()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=12)


@given(st.lists(st.dictionaries(TEXTS, VALUES, min_size=1), min_size=1, max_size=3))
def test_yaml_reads_back_as_what_was_written(documents):
    text = write_yaml(documents)

    assert list(yaml.safe_load_all(text)) == documents
