"""flota.phase: marks a part of the script, such as a checkpoint, so that flota knows where its time goes."""

from __future__ import annotations

from threading import current_thread, main_thread

from flota.worker import heartbeat


def phase(name: str) -> PhaseMark:
    """Mark what the main thread does as a phase: `with flota.phase("checkpoint"): …`. Never raises.

    Phases can be nested: each second belongs to the innermost one. Other threads are ignored, because the training
    continues beside them.
    """
    return PhaseMark(name)


class PhaseMark:
    def __init__(self, name: str) -> None:
        self._name = name
        self._depths: list[int] = []

    def __enter__(self) -> None:
        page = heartbeat._page  # noqa: SLF001
        try:
            if page.is_open() and current_thread() is main_thread():
                self._depths.append(page.enter_phase(str(self._name)))
        except Exception:  # noqa: S110  a wrong argument must not stop the training
            pass

    def __exit__(self, kind: object, *_: object) -> None:
        if not self._depths or current_thread() is not main_thread():
            return
        page, depth = heartbeat._page, self._depths.pop()  # noqa: SLF001
        try:
            if page.is_open():
                page.leave_phase(depth, complete=kind is None)
        except Exception:  # noqa: S110
            pass
