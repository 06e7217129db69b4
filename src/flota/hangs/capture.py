"""Captures the stacks of workers with py-spy, which runs in the background, and writes them to a file.

py-spy reads the memory of other processes without stopping them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping

from flota.errors import INSTALL_SPY
from flota.hangs.procfs import line_of, observe, runs_python, task_of
from flota.hangs.stack_dump import Sample, Stack, parse_spy, stacks_in_words
from flota.hangs.wait_sites import RankPosition, position_of
from flota.host.loop import Loop
from flota.logs.directory import write_whole
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen

    from flota.run.node_watch import NodeWatch


NO_SPY = f"py-spy is not installed: {INSTALL_SPY}"
LIMIT = 10.0  # seconds
AT_ONCE = 32


class SampleSet(NamedTuple):
    """`samples` by worker; `trouble`: the message of py-spy if it could not read a stack."""

    samples: dict[int, Sample]
    trouble: str = ""

    @property
    def blind(self) -> bool:
        """Whether no sample has a stack."""
        return not any(sample.stacks for sample in self.samples.values())


Then = Callable[[SampleSet], object]


class StackTaker:
    """Takes samples of workers, one set at a time; without stacks if `spy`, the path of py-spy, is empty. `deadline`:
    when it gives up on stacks that have not been read."""

    def __init__(self, environ: Mapping[str, str], loop: Loop) -> None:
        self.spy = find_spy(environ)
        self.loop = loop
        self.deadline: float | None = None
        self._then: Then | None = None
        self._samples: dict[int, Sample] = {}  # by worker
        self._before: dict[int, tuple[float, int]] = {}  # CPU time and wakes of children in the last set, by pid
        self._waiting: list[int] = []  # pids
        self._running: dict[int, tuple[int, Popen[bytes]]] = {}  # by descriptor: the pid that is read, and its py-spy
        self._texts: dict[int, bytes] = {}  # by pid
        self._native = self._again = False

    @property
    def busy(self) -> bool:
        return self._then is not None

    def take(self, ranks: list[RankPosition], then: Then, *, all_children: bool = False, native: bool = False) -> None:
        """Call `then` with samples of these ranks. `all_children`: with the stacks of all children that run Python, and
        not only of active ones."""
        assert not self.busy
        observed = {rank.worker: _observe(rank.pid) for rank in ranks}
        self._samples = {worker: sample for worker, sample in observed.items() if sample}
        children = [child for sample in self._samples.values() for child in sample.children]
        before, self._before = self._before, {child.pid: (child.cpu, child.wakes) for child in children}
        wanted = [pid for pid, used in self._before.items() if all_children or used != before.get(pid, used)]
        self._waiting = [sample.pid for sample in self._samples.values()] + list(filter(runs_python, wanted))
        self._texts, self._then, self._native, self._again = {}, then, native, True
        self.deadline = time.monotonic() + LIMIT
        self._proceed()

    def on_time(self, now: float) -> None:
        if self.deadline is not None and now >= self.deadline:
            self._end_all()
            self._proceed()

    def stop(self) -> None:
        self._then = self.deadline = None
        self._end_all()

    def _end_all(self) -> None:
        self._waiting = []
        for fd, (_, process) in list(self._running.items()):
            process.kill()
            self._end(fd)

    def _proceed(self) -> None:
        while self.spy and self._waiting and len(self._running) < AT_ONCE:
            pid = self._waiting.pop(0)
            try:
                self._start(pid)
            except OSError as error:
                self._texts[pid] = str(error).encode()
        if not self._running and self._then:
            self._finish(self._then)

    def _start(self, pid: int) -> None:
        from subprocess import DEVNULL, PIPE, STDOUT, Popen

        # Native frames need a stopped process. Variables are only compared, never stored: they may be secret.
        how = ["--native"] if self._native else ["--nonblocking", "--locals"]
        command = [self.spy, "dump", "--json", *how, "--pid", str(pid)]
        process = Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env={})
        assert process.stdout
        fd = process.stdout.fileno()
        self._running[fd], self._texts[pid] = (pid, process), b""
        self.loop.watch(fd, lambda: self._read(fd))

    def _read(self, fd: int) -> None:
        data = os.read(fd, 1 << 16)
        self._texts[self._running[fd][0]] += data
        if not data:
            self._end(fd)
            self._proceed()

    def _end(self, fd: int) -> None:
        _, process = self._running.pop(fd)
        self.loop.forget(fd)
        if process.stdout:
            process.stdout.close()
        process.wait()

    def _finish(self, then: Then) -> None:
        texts = {pid: text.decode(errors="replace") for pid, text in self._texts.items()}
        stacks = {pid: parse_spy(text[max(0, text.find("[\n")) :]) for pid, text in texts.items()}  # after warnings
        missing = [pid for pid in stacks if not stacks[pid]]
        if self._again and missing:
            # Retry once: a changing stack may be unreadable for a moment, and native frames cannot be read of a process
            # that a signal has already stopped.
            self._waiting, self._native, self._again = missing, False, False
            self.deadline = time.monotonic() + LIMIT
            self._proceed()
            return
        trouble = next((texts[pid].strip().partition("\n")[0] for pid in missing), "")
        samples = {worker: _with_stacks(sample, stacks) for worker, sample in self._samples.items()}
        self._then = self.deadline = None
        then(SampleSet(samples, trouble if self.spy else NO_SPY))


def find_spy(environ: Mapping[str, str]) -> str:
    """The path of py-spy: next to the interpreter, where pip installs it, or on PATH; empty if there is none."""
    directories = [os.path.dirname(sys.executable), *environ.get("PATH", "").split(os.pathsep)]
    paths = (f"{directory}/py-spy" for directory in directories if directory)
    return next((path for path in paths if os.access(path, os.X_OK) and os.path.isfile(path)), "")


def _observe(pid: int) -> Sample | None:
    """Sample a worker, or the Python process inside if the worker is only a wrapper."""
    sample = observe(pid)
    if sample is None or runs_python(pid):
        return sample
    inner = next((child for child in sample.children if runs_python(child.pid)), sample)
    return inner._replace(children=tuple(child for child in sample.children if child.pid != inner.pid))


def _with_stacks(sample: Sample, stacks: dict[int, tuple[Stack, ...]]) -> Sample:
    own = tuple(_with_task(stack, sample.pid) for stack in stacks.get(sample.pid, ()))
    return sample._replace(stacks=own, children=tuple(_with_stacks(child, stacks) for child in sample.children))


def _with_task(stack: Stack, pid: int) -> Stack:
    """Add what the kernel knows of the thread, and the line of the user's code."""
    own = stack.own
    if own is None:
        return stack
    with_text = own._replace(text=line_of(pid, own.file, own.line))
    frames = tuple(with_text if frame is own else frame for frame in stack.frames)
    return stack._replace(frames=frames, task=task_of(pid, stack.number) if stack.number else stack.task)


def ranks_of(node: NodeWatch, workers: Iterable[int]) -> list[RankPosition]:
    """The ranks of these workers that have a pid; what they wait on is not known yet."""
    started, pids = node.started, node.evidence.pids
    host = started.roster.seats[started.seat].host if node.spec.nodes else ""
    own = [(number, started.plans[number].worker) for number in sorted(workers) if number in pids]
    return [
        RankPosition(one.rank, "", "", one.name, host, number, one.local_rank, pids[number], one.stderr)
        for number, one in own
    ]


def with_positions(ranks: list[RankPosition], samples: dict[int, Sample]) -> tuple[RankPosition, ...]:
    """The ranks that have samples, with what they wait on."""
    found = ((rank, position_of(samples[rank.worker])) for rank in ranks if rank.worker in samples)
    return tuple(rank._replace(kind=kind, words=words) for rank, (kind, words) in found)


def save(node: NodeWatch, words: tuple[str, ...], ranks: tuple[RankPosition, ...], samples: dict[int, Sample]) -> str:
    """Write all stacks of this node to a file in the log directory. Returns its path, or an empty string on failure."""
    spec, roster = node.spec, node.started.roster
    name = f".{roster.seats[node.started.seat].host}" if spec.nodes else ""
    path = f"{spec.log.directory}/stacks.{roster.attempt}{name}.txt"
    title = f"flota: job {spec.job_id}, round {roster.round}, attempt {roster.attempt}"
    try:
        write_whole(path, text_of(title, words, ranks, samples))
    except OSError as error:
        node.console.say("WARNING", f"cannot write {error.filename}: {error.strerror}")
        return ""
    return path


def text_of(title: str, words: tuple[str, ...], ranks: tuple[RankPosition, ...], samples: dict[int, Sample]) -> str:
    """The content of the stacks file, which `flota stack` prints as well."""
    lines = [f"===== {title}, {time.strftime('%Y-%m-%d %H:%M:%S')} =====", *words]
    for one in ranks:
        if one.worker in samples:
            sample = samples[one.worker]
            lines += ["", f"{one.label} (pid {sample.pid}): {one.words}", *stacks_in_words(sample.stacks)]
            for child in sample.children:
                if child.stacks:
                    lines.append(f"  its child {child.name} (pid {child.pid})")
                    lines += [f"  {line}" for line in stacks_in_words(child.stacks)]
    return "\n".join([*lines, ""])
