"""All stacks of some workers at one moment: taken by py-spy, and put into words and into a file."""

from __future__ import annotations

import time

from flota.hangs.procfs import line_of, observe, runs_python, task_of
from flota.hangs.pyspy import Spy
from flota.hangs.stack import Sample, Stack, parse_spy, stacks_in_words
from flota.hangs.wait_sites import RankPosition, position_of
from flota.job.roles import TRAINER, label
from flota.logs.directory import write_whole
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from flota.job.spec import JobSpec
    from flota.run.start import Started


class Subject(NamedTuple):
    """A worker whose stack is wanted."""

    worker: int
    rank: int
    pid: int
    role: str = TRAINER
    log: str = ""
    local_rank: int = 0


class Taken(NamedTuple):
    """`samples` by worker; `trouble`: what py-spy said where it had no stack."""

    samples: dict[int, Sample]
    trouble: str = ""

    @property
    def blind(self) -> bool:
        """Whether none has a stack."""
        return not any(sample.stacks for sample in self.samples.values())


class StackTaker:
    """`spy` is None where there is no py-spy: then samples have no stacks."""

    def __init__(self, spy: Spy | None) -> None:
        self.spy = spy
        self._before: dict[int, Sample] = {}  # children, by pid

    @property
    def busy(self) -> bool:
        return self.spy is not None and self.spy.busy

    def take(
        self, subjects: list[Subject], then: Callable[[Taken], object], *, everybody: bool = False, native: bool = False
    ) -> None:
        """`everybody`: with the stacks of all their children that run Python; otherwise of those that do something."""
        seen = {subject.worker: _observed(subject.pid) for subject in subjects}
        samples = {worker: sample for worker, sample in seen.items() if sample}
        wanted = [sample.pid for sample in samples.values()]
        for sample in samples.values():
            wanted += [
                child.pid for child in sample.children if runs_python(child.pid) and self._wants(child, everybody)
            ]
        self._before = {child.pid: child for sample in samples.values() for child in sample.children}
        if self.spy is None:
            then(Taken(samples, "there is no py-spy: run `pip install 'flota[stacks]'`"))
        else:
            self.spy.look(wanted, lambda texts: self._told(samples, texts, then, again=True), native=native)

    def _wants(self, child: Sample, everybody: bool) -> bool:  # noqa: FBT001
        before = self._before.get(child.pid, child)
        return everybody or child.cpu > before.cpu or child.wakes > before.wakes

    def _told(
        self, samples: dict[int, Sample], texts: dict[int, str], then: Callable[[Taken], object], *, again: bool
    ) -> None:
        stacks = {pid: parse_spy(text) for pid, text in texts.items()}
        missing = [pid for pid in texts if not stacks[pid]]
        if again and missing and self.spy:
            # One that is changing may be unreadable for a moment. And for native frames a process is stopped, which one
            # that a signal has stopped cannot be once more.
            self.spy.look(missing, lambda more: self._told(samples, {**texts, **more}, then, again=False))
            return
        trouble = next((text.strip().partition("\n")[0] for pid, text in texts.items() if not stacks[pid]), "")
        full = {worker: _with_stacks(sample, stacks) for worker, sample in samples.items()}
        then(Taken(full, trouble))


def _observed(pid: int) -> Sample | None:
    """The worker, or what runs Python in the place of one that is only a wrapper around it."""
    sample = observe(pid)
    if sample is None or runs_python(pid):
        return sample
    inner = next((child for child in sample.children if runs_python(child.pid)), None)
    if inner is None:
        return sample
    others = tuple(child for child in sample.children if child.pid != inner.pid)
    return inner._replace(children=others)


def _with_stacks(sample: Sample, stacks: dict[int, tuple[Stack, ...]]) -> Sample:
    full = tuple(_full(stack, sample.pid) for stack in stacks.get(sample.pid, ()))
    return sample._replace(stacks=full, children=tuple(_with_stacks(child, stacks) for child in sample.children))


def _full(stack: Stack, pid: int) -> Stack:
    """With what the kernel knows of the thread, and its line of the user's own code."""
    own = stack.own
    if own is None:
        return stack
    told = own._replace(text=line_of(pid, own.file, own.line))
    frames = tuple(told if frame is own else frame for frame in stack.frames)
    return stack._replace(frames=frames, task=task_of(pid, stack.number) if stack.number else stack.task)


def positions_of(subjects: list[Subject], samples: dict[int, Sample], host: str = "") -> tuple[RankPosition, ...]:
    return tuple(
        position_of(subject.rank, samples[subject.worker], subject.role)._replace(
            worker=subject.worker, local_rank=subject.local_rank, host=host, log=subject.log
        )
        for subject in subjects
        if subject.worker in samples
    )


def subjects_of(started: Started, pids: Mapping[int, int], workers: Iterable[int]) -> list[Subject]:
    """Of these workers of a round those that have a pid."""
    own = [(number, started.plans[number].worker) for number in sorted(workers) if number in pids]
    return [
        Subject(number, worker.rank, pids[number], worker.name, worker.stderr, worker.local_rank)
        for number, worker in own
    ]


def save(
    spec: JobSpec, started: Started, words: tuple[str, ...], subjects: list[Subject], samples: dict[int, Sample]
) -> str:
    """All stacks of this node, in a file in the log directory: its path."""
    roster = started.roster
    node = f".{roster.seats[started.seat].host}" if spec.nodes else ""
    path = f"{spec.log.directory}/stacks.{roster.attempt}{node}.txt"
    title = f"flota: job {spec.job_id}, round {roster.round}, attempt {roster.attempt}"
    write_whole(path, page(title, words, subjects, samples))
    return path


def page(title: str, words: tuple[str, ...], subjects: list[Subject], samples: dict[int, Sample]) -> str:
    """The file of stacks."""
    lines = [f"===== {title}, {time.strftime('%Y-%m-%d %H:%M:%S')} =====", *words]
    for subject in subjects:
        sample = samples.get(subject.worker)
        if sample is None:
            continue
        post = position_of(subject.rank, sample)
        lines += ["", f"{label(subject.role, subject.rank)} (pid {sample.pid}): {post.words}"]
        lines += stacks_in_words(sample.stacks)
        for child in sample.children:
            if child.stacks:
                lines += [
                    f"  its child {child.name} (pid {child.pid})",
                    *(f"  {x}" for x in stacks_in_words(child.stacks)),
                ]
    return "\n".join([*lines, ""])
