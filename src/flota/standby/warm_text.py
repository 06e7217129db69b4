"""What users read about warm starts. Pure."""

from __future__ import annotations


def imports_in_words(names: list[str], seconds: float) -> str:
    """`imported torch, numpy in 1.9 s`"""
    shown = [name for name in names if "." not in name] or names
    listed = (", ".join(shown[:4]) or "nothing yet") + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
    return f"imported {listed} in {seconds:.1f} s"


def next_restart_in_words(start: float | None, imports: float) -> str:
    """What a warm restart costs. `start`: seconds that the last one took to start the workers, if there was one.
    `imports`: seconds that it saves."""
    if start is None:
        return f"the next restart saves {imports:.1f} s of imports"
    return f"the next restart starts in about {max(start, 0.1):.1f} s (a cold one in {start + imports:.1f} s)"


def loss_in_words(last_line: str, imports: float, *, is_replaced: bool) -> str:
    """A parked interpreter is gone. `last_line`: what it has printed last. `imports`: seconds, or 0 if unknown."""
    lost = f"the parked interpreter exited: {last_line}" if last_line else "the parked interpreter exited"
    if not is_replaced:
        return lost
    cost = f" takes about {imports:.1f} s longer" if imports else " is cold"
    return f"{lost}; until another one is ready, a restart{cost}"
