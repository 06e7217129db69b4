"""The grace period before a restart."""

from __future__ import annotations

import pytest

from flota.supervise.grace_period import restart_grace_of


@pytest.mark.parametrize(
    ("grace", "given", "expected"), [(30.0, None, 5.0), (2.0, None, 2.0), (2.0, 30.0, 30.0), (30.0, 0.0, 0.0)]
)
def test_the_grace_period_before_a_restart_is_short_unless_it_is_given(grace, given, expected):
    assert restart_grace_of(grace, given) == expected
