"""The workers that a program has started, as it sees them: awaited, asked for results, ended."""

from __future__ import annotations

import os
import pickle
import threading

from flota.errors import TRY_AGAIN
from flota.errors.spawning import MissingGuard, NodeLost, NoResult, TimedOut, WorkerFailed, WorkersStopped
from flota.failures.report_text import sentence
from flota.job.causes import NOT_STARTED, SHEPHERD_LOST
from flota.job.report import STOPPED
from flota.spawning.supervisor_client import SupervisorClient
from flota.spawning.worker_process import RAISED, RETURNED, UNGUARDED, read_all
from flota.wording import ending_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self


class Process:
    """One worker, in the words of multiprocessing."""

    def __init__(self, link: SupervisorClient, rank: int) -> None:
        self._link = link
        self.rank = rank

    def __repr__(self) -> str:
        return f"<flota worker: rank {self.rank}, pid {self.pid}, exitcode {self.exitcode}>"

    @property
    def pid(self) -> int | None:
        return self._link.pids.get(self.rank)

    @property
    def exitcode(self) -> int | None:
        """None while it runs, minus N after a signal."""
        return self._link.codes.get(self.rank)

    def is_alive(self) -> bool:
        return self.pid is not None and self.exitcode is None and not self._link.ended.is_set()

    def join(self, timeout: float | None = None) -> None:
        """Wait for this worker alone; whether it failed is to be seen from its exitcode, or from Workers.join."""
        with self._link.changed:
            self._link.changed.wait_for(lambda: not self.is_alive(), timeout)


class Workers:
    """What flota.spawn gives. All methods may be called from any thread, and again."""

    def __init__(
        self, link: SupervisorClient, results: tuple[int, ...], logs: tuple[str, ...], timeout: float | None
    ) -> None:
        self._link = link
        self._results = results
        self._logs = logs
        self._timeout = timeout
        self._loaded: list[Any] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        alive = sum(process.is_alive() for process in self.processes)
        return f"<flota workers: {len(self._results)}, {alive} running>"

    def __del__(self) -> None:
        for fd in self._results:
            os.close(fd)

    @property
    def processes(self) -> list[Process]:
        """In rank order."""
        return [Process(self._link, rank) for rank in range(len(self._results))]

    @property
    def pids(self) -> list[int]:
        """In rank order; of those that could be started."""
        return [process.pid for process in self.processes if process.pid is not None]

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all have ended by themselves: True, or False when `timeout` seconds have passed before.

        Raises WorkerFailed for the first that failed, and WorkersStopped when the program has ended them. Interrupted
        by Ctrl-C, it ends them all.
        """
        if not self._link.wait(timeout):
            return False
        self._raise_failure()
        return True

    def results(self) -> list[Any]:
        """What the workers returned, in rank order, after they have all ended."""
        try:
            self.join()
        except WorkersStopped:
            pass  # some may have been done; of the others it is said which, and why
        with self._lock:
            if self._loaded is None:
                self._loaded = [self._result(rank) for rank in range(len(self._results))]
        return list(self._loaded)

    def stop(self) -> None:
        """Ask them to save what they have and end, all at the same step, as SIGTERM to the command does.

        `join` waits for that. If one does not use flota.should_stop or flota.on_stop, all get SIGTERM. Signal handlers
        may call this.
        """
        self._link.send("yield")

    def kill(self) -> None:
        """End them all at once."""
        self._link.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
            return
        try:
            self.join()
        except WorkersStopped:
            pass  # by the block itself

    def _result(self, rank: int) -> Any:
        content = read_all(self._results[rank])
        if content[:1] != RETURNED:
            why = ending_in_words(self._link.codes[rank]) if rank in self._link.codes else "it never ran"
            raise NoResult(rank, f"it ended with {why}" if rank in self._link.codes else why)
        try:
            return pickle.loads(memoryview(content)[1:])  # noqa: S301  written by our own worker
        except Exception as error:
            raise NoResult(rank, f"it cannot be read here: {type(error).__name__}: {error}") from error

    def _raise_failure(self) -> None:
        link = self._link
        if link.kind is None:
            raise NodeLost(ending_in_words(link.code))
        if not link.failures:
            if link.timed_out and self._timeout is not None:
                raise TimedOut(self._timeout)
            if link.kind == STOPPED and link.exit_code != TRY_AGAIN:
                raise WorkersStopped
            return
        rank, code, cause, ran = link.failures[0]
        if cause == SHEPHERD_LOST:
            raise NodeLost(ending_in_words(code))
        content = read_all(self._results[rank])
        if content[:1] == UNGUARDED:
            raise MissingGuard
        left = content[1:].decode(errors="replace") if content[:1] == RAISED else ""
        summary, _, text = left.partition("\n")
        message = sentence(rank, cause, code, ran)
        if cause == NOT_STARTED:
            message += f": {os.strerror(link.unstarted[rank])}"
        elif summary:
            message += f": {summary}"
        raise WorkerFailed(message, rank, code, text, self._logs[rank] if self._logs else "")
