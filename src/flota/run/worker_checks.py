"""What a node checks from time to time while its workers run."""

from __future__ import annotations

from flota.supervise.supervisor import Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.run.node_watch import NodeWatch


def check_deadlines(node: NodeWatch) -> tuple[float | None, ...]:
    if not node.in_round or node.supervisor.phase != Phase.RUNNING:
        return ()
    parts = (
        *(node.hang_watch, node.step_times, node.last_room, node.log_times, node.recorder, node.progress_watch),
        node.chaos,
    )
    return tuple(part.deadline if part else None for part in parts)


def check_workers(node: NodeWatch, now: float) -> None:
    node.last_room.on_time(now)
    node.log_times.on_time(now)
    if node.hang_watch:
        node.hang_watch.on_time(now)
    if node.recorder:
        node.recorder.on_time(node.supervisor.alive, now)
    if node.step_times and now >= node.step_times.deadline:
        node.evidence.on_time(now)
        node.on_steps(node.step_times.read(node.working(), now), now)
    if node.supervisor.phase != Phase.RUNNING:
        node.console.show_status("")
        if node.chaos:
            node.chaos.resume()
        return
    node.progress_watch.on_time(now)
    if node.chaos:
        node.chaos.on_time(now)
