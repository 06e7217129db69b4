"""Labels every microsecond of one worker process, and of the time between two processes. Pure."""

from __future__ import annotations

from flota.host.channel import NO_STEP
from flota.ledger.history import KILLED, RUNNING, NodeTimes, RoundTimes, WorkerRun, to_microseconds
from flota.ledger.page import PageTimes
from flota.values import NamedTuple

WAIT, START, IMPORT, INITIALISE, STEP = "wait for nodes", "start", "import", "initialise", "step"
CHECKPOINT, EVALUATE = "checkpoint", "evaluate"
STALLED, HANG, LOST, RESTART, STOPPING = "stalled", "hang", "lost work", "restart", "stopping"
WORKING, UNKNOWN = "running", "unknown"
# In the order in which they are shown; the names of other phases follow STEP.
LABELS = (
    *(WAIT, START, IMPORT, INITIALISE, STEP, EVALUATE, CHECKPOINT, WORKING),
    *(STALLED, HANG, LOST, RESTART, STOPPING, UNKNOWN),
)

Spent = dict[str, int]  # microseconds by label


class RoundEnd(NamedTuple):
    """How a round ended, by this node's clock. Times are 0 if it did not happen."""

    failed: int = 0  # the first failure on any node
    last_exit: int = 0  # on any node


class Account:
    """Spends a time span piece by piece: no piece is longer than what is left, so the sum is always the span."""

    def __init__(self, begin: int, end: int) -> None:
        self.at = begin
        self.end = max(begin, end)
        self.spent: Spent = {}

    def spend(self, label: str, amount: int) -> None:
        amount = max(0, min(amount, self.end - self.at))
        if amount:
            self.at += amount
            self.spent[label] = self.spent.get(label, 0) + amount

    def until(self, time: int, label: str) -> None:
        self.spend(label, time - self.at)

    def rest(self, label: str) -> Spent:
        self.until(self.end, label)
        return self.spent


def spend_run(run: WorkerRun, node: NodeTimes, end: RoundEnd, *, counts_steps: bool, repeated_from: int) -> Spent:
    """Label the time of a process. `counts_steps`: workers of its role report steps. `repeated_from`: the first step
    that a later process did again, or NO_STEP."""
    page = run.page
    account = Account(run.started, node.ended if run.ended is None else min(run.ended, node.ended))
    signs = [to_microseconds(time) for time in (page.opened, page.output_at) if time]
    if signs:
        account.until(min(signs), IMPORT)
    if page.first_at:
        setup = to_microseconds(page.first_at) - account.at - to_microseconds(page.phases_before)
        account.spend(INITIALISE, setup)
    for name, seconds in page.phases:
        account.spend(name, to_microseconds(seconds))
    if page.first_at:
        lost = lost_seconds(run.pages, repeated_from)
        account.spend(STEP, to_microseconds(page.step_seconds - lost))
        account.spend(LOST, to_microseconds(lost))
    return _spend_tail(account, run, node, end, _current_label(run, node, counts_steps=counts_steps, known=bool(signs)))


def _current_label(run: WorkerRun, node: NodeTimes, *, counts_steps: bool, known: bool) -> str:
    """What the process did after everything that its page tells."""
    if run.page.first_at:
        return LOST if run.ended is not None else UNKNOWN if node.state == KILLED else WORKING
    if not counts_steps:
        return WORKING
    return INITIALISE if known else IMPORT


def _spend_tail(account: Account, run: WorkerRun, node: NodeTimes, end: RoundEnd, label: str) -> Spent:
    """`label`: what the process did before it was disturbed, outside of phases."""
    times, page = node.rounds.get(run.round, RoundTimes(0)), run.page
    marked_at = to_microseconds(page.marked_at)
    if times.hang and (run.ended is None or run.ended > times.hang):
        account.until(marked_at or times.quiet or times.hang, label)
        account.until(times.hang, HANG)
        return account.rest(STOPPING)
    is_stopped = times.stopping and (run.asked_to_stop or run.ended is None)
    undisturbed = min(end.failed or times.stopping, times.stopping) if is_stopped else account.end
    if page.phase:
        account.spend(page.phase, undisturbed - max(account.at, marked_at))
    if is_stopped:
        account.until(undisturbed, label)
        account.until(times.stopping, STALLED)
        return account.rest(STOPPING)
    if run.ended is not None and run.code == 0 and page.first_at:
        # heartbeat(step) is called before the step: the last one is still to be done.
        account.spend(STEP, to_microseconds(page.step_seconds / max(1, page.last_step - page.first_step)))
        return account.rest(STOPPING)
    return account.rest(label)


def lost_seconds(pages: tuple[PageTimes, ...], repeated_from: int) -> float:
    """How long the process took for the steps that were repeated. This is exact if they were repeated from a checkpoint
    that was the last one in a page; otherwise it is interpolated between pages."""
    last = pages[-1]
    if repeated_from == NO_STEP or repeated_from > last.last_step + 1 or any(page.went_back for page in pages):
        return 0.0
    saved = [page for page in pages if page.saved_step in (repeated_from - 1, repeated_from) and page.saved_step >= 0]
    if saved:
        return max(0.0, last.step_seconds - saved[-1].saved_seconds)
    points = [(last.first_step, 0.0)]
    points += [(page.last_step, page.step_seconds) for page in pages]
    points += [(page.saved_step, page.saved_seconds) for page in pages if page.saved_step > last.first_step]
    return max(0.0, last.step_seconds - _interpolate(sorted(points), repeated_from))


def _interpolate(points: list[tuple[int, float]], step: int) -> float:
    """The seconds at a step."""
    (step_before, before), (step_after, after) = points[0], points[-1]
    for at, seconds in points:
        if at <= step:
            step_before, before = at, seconds
        else:
            step_after, after = at, seconds
            break
    if step <= step_before or step_after <= step_before:
        return before
    return before + (after - before) * min(1.0, (step - step_before) / (step_after - step_before))


def spend_gap(node: NodeTimes, before: WorkerRun | None, after: WorkerRun | None, begin: int, end: RoundEnd) -> Spent:
    """Label the time between two processes at the same place, before the first or after the last one, from `begin`."""
    account = Account(begin, min(after.started, node.ended) if after else node.ended)
    started = node.rounds[after.round].started if after and after.round in node.rounds else 0
    if before is None:
        if after and after.round in node.rounds and node.rounds[after.round].called:
            return account.rest(RESTART)  # as for the ranks that had a seat before
        if node.several or not node.rounds:
            account.until(started if after else account.end, WAIT)
        for imports_began, imported in node.imports:
            account.until(imports_began, START)
            account.until(imported, IMPORT)
        return account.rest(START)
    times = node.rounds.get(before.round, RoundTimes(0))
    if before.code == 0 and not before.asked_to_stop:  # it was done before others
        account.until(end.failed or times.stopping or end.last_exit, STALLED)
    if times.waiting:
        account.until(times.waiting, RESTART)
        account.until(started if after else account.end, WAIT)
    return account.rest(STOPPING if after is None and node.state != RUNNING else RESTART)
