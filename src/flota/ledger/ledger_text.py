"""The ledger for people: goodput, a table of labels, the worst ranks, and what restarts cost. Pure."""

from __future__ import annotations

from flota.humanize import clock_in_words, duration_in_words
from flota.job.roles import label
from flota.ledger.history import ENDED, RUNNING, SECOND
from flota.ledger.ledger import Ledger, RankLedger
from flota.ledger.spending import STEP, WORKING, Spent

WORST = 3  # ranks
MOST_RESTARTS = 10
MOST_LABELS = 4  # of one rank or one restart


def ledger_in_words(job_id: str, ledger: Ledger) -> list[str]:
    ranks = len(ledger.ranks)
    states = {ENDED: "ended after", RUNNING: "running for"}
    state = states.get(ledger.state, "killed: known for")
    took = duration_in_words(ledger.wall / SECOND)
    why = f" ({ledger.ended_by})" if ledger.ended_by else ""
    lines = [f"job {job_id}: {state} {took}{why}, {ranks} rank{'s' * (ranks != 1)}", _goodput(ledger), ""]
    lines += _table(ledger.spent, ranks)
    if ledger.missing:
        lines += ["", f"{ledger.missing} of {ranks} ranks left no events: give the log directories of all nodes"]
    return [*lines, *_worst(ledger), *_restarts(ledger)]


def _goodput(ledger: Ledger) -> str:
    if ledger.goodput is None:
        return "goodput: unknown, because no rank reported steps (flota.heartbeat)"
    of = f", {ledger.missing} unknown ranks left out" if ledger.missing else ""
    return f"goodput: {ledger.goodput:.1%} of the time was spent in steps that count{of}"


def _table(spent: Spent, ranks: int) -> list[str]:
    wall = sum(spent.values())
    rows = [(name, amount, amount / wall if wall else 0.0) for name, amount in [*spent.items(), ("total", wall)]]
    width = max(len(name) for name, _, _ in rows)
    head = f"{'':{width}}  seconds per rank   share"
    mean = [f"{amount / SECOND / max(1, ranks):,.1f}" for _, amount, _ in rows]
    return [
        head,
        *(f"{name:{width}}  {text:>16}  {share:>6.1%}" for (name, _, share), text in zip(rows, mean, strict=True)),
    ]


def _worst(ledger: Ledger) -> list[str]:
    """The ranks with the smallest share of steps, if ranks differ."""
    rows = sorted(ledger.working_ranks, key=_share_of_steps)
    if len(rows) < 2 or _share_of_steps(rows[-1]) - _share_of_steps(rows[0]) < 0.01:
        return []
    lines = ["", "ranks with the smallest share of steps:"]
    for row in rows[:WORST]:
        where = f" on {row.node}" if row.node else ""
        others = _largest({name: amount for name, amount in row.spent.items() if name not in (STEP, WORKING)})
        lines.append(f"  {label(row.role, row.rank)}{where}: {_share_of_steps(row):.1%} ({others})")
    return lines


def _share_of_steps(row: RankLedger) -> float:
    return row.spent.get(STEP, 0) / row.wall if row.wall else 0.0


def _restarts(ledger: Ledger) -> list[str]:
    if not ledger.restarts:
        return []
    lines = ["", "restarts, per rank:"]
    for one in ledger.restarts[-MOST_RESTARTS:]:
        parts = _largest({name: amount // max(1, one.ranks) for name, amount in one.spent.items()})
        why = f", {one.reason}" if one.reason else ""
        lines.append(f"  after {clock_in_words(one.at / SECOND)}{why}: {one.mean / SECOND:.1f} s ({parts})")
    older = len(ledger.restarts) - MOST_RESTARTS
    return [*lines, *([f"  and {older} earlier"] if older > 0 else [])]


def _largest(spent: Spent) -> str:
    parts = sorted(spent.items(), key=lambda part: -part[1])[:MOST_LABELS]
    return ", ".join(f"{name} {amount / SECOND:.1f} s" for name, amount in parts)
