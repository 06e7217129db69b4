"""Every cell of the supervisor's table is decided."""

from __future__ import annotations

from itertools import product
from typing import get_args

from flota.supervise.events import Event
from flota.supervise.phases import PHASES
from flota.supervise.reactions import REACTIONS
from flota.supervise.supervisor import Supervisor


def test_every_event_is_decided_in_every_phase():
    assert set(REACTIONS) == set(product(PHASES, get_args(Event)))
    assert all(callable(getattr(Supervisor, f"_{name}")) for name in REACTIONS.values())
