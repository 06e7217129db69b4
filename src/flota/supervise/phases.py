"""Where a round stands. Pure."""

from __future__ import annotations


class Phase:
    """Plain text: enum would cost 3 ms of CPU while the workers' interpreters boot."""

    RUNNING = "running"
    LINGERING = "lingering"  # the work is done; those who served may end by themselves
    YIELDING = "yielding"  # workers were asked to save what they have and end by themselves
    STOPPING = "stopping"  # workers were told to end
    SWEEPING = "sweeping"  # all workers have ended, strays are being ended
    ENDED = "ended"


PHASES = (Phase.RUNNING, Phase.LINGERING, Phase.YIELDING, Phase.STOPPING, Phase.SWEEPING, Phase.ENDED)
