"""Workers, the result of flota.spawn."""

import os
import pickle
import threading
from contextlib import ExitStack
from typing import Any, Self

from flota.errors import TRY_AGAIN
from flota.errors.spawning import MissingGuard, NodeLost, NoResult, TimedOut, WorkerFailed, WorkersStopped
from flota.failures.report_text import culprit_in_words
from flota.humanize import ending_in_words
from flota.job.causes import NOT_STARTED, SHEPHERD_LOST
from flota.job.report import STOPPED, FailedWorker
from flota.spawning.pickled_call import anonymous_file
from flota.spawning.supervisor_client import SupervisorClient
from flota.spawning.worker_process import RAISED, RETURNED, UNGUARDED, read_all


class Process:
    """One worker, with the interface of multiprocessing.Process."""

    def __init__(self, client: SupervisorClient, rank: int) -> None:
        self._client = client
        self.rank = rank

    def __repr__(self) -> str:
        return f"<flota worker: rank {self.rank}, pid {self.pid}, exitcode {self.exitcode}>"

    @property
    def pid(self) -> int | None:
        return self._client.pids.get(self.rank)

    @property
    def exitcode(self) -> int | None:
        """None while the worker runs; -N if signal N killed it."""
        return self._client.codes.get(self.rank)

    def is_alive(self) -> bool:
        return self.pid is not None and self.exitcode is None and not self._client.has_ended

    def join(self, timeout: float | None = None) -> None:
        """Wait for this worker. Does not raise if it failed: see `exitcode`."""
        self._client.wait_until(lambda: not self.is_alive(), timeout)


class Workers:
    """The workers of one call of flota.spawn. All methods may be called from any thread, and repeatedly."""

    def __init__(self, client: SupervisorClient, timeout: float | None, logs: list[str]) -> None:
        self._client = client
        self._timeout = timeout
        self._logs = logs  # by rank; empty without log_dir
        self._files = ExitStack()
        self.result_fds = tuple(anonymous_file(self._files) for _ in range(client.workers))
        self._loaded: list[Any] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        alive = sum(process.is_alive() for process in self.processes)
        return f"<flota workers: {self._client.workers}, {alive} running>"

    def __del__(self) -> None:
        self._files.close()

    @property
    def processes(self) -> list[Process]:
        """All workers in rank order."""
        return [Process(self._client, rank) for rank in range(self._client.workers)]

    @property
    def pids(self) -> list[int]:
        """The pids in rank order, of those workers that could be started."""
        return [process.pid for process in self.processes if process.pid is not None]

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all workers have finished. Returns False if that takes longer than `timeout` seconds.

        Raises WorkerFailed for the first failure, and WorkersStopped if the caller stopped the workers. Ctrl-C stops
        all workers.
        """
        if not self._client.wait(timeout):
            return False
        self._raise_failure()
        return True

    def results(self) -> list[Any]:
        """Wait for the workers and return what their functions returned, in rank order."""
        try:
            self.join()
        except WorkersStopped:
            pass  # some may have finished before; NoResult names the first that did not
        with self._lock:
            if self._loaded is None:
                self._loaded = [self._result(rank) for rank in range(self._client.workers)]
        return list(self._loaded)

    def stop(self) -> None:
        """Ask the workers to save their state and exit, all at the same step, as SIGTERM to the command does.

        Call `join` to wait for that. If a worker uses neither flota.should_stop nor flota.on_stop, all are sent
        SIGTERM. May be called from signal handlers.
        """
        self._client.send("stop gracefully")

    def kill(self) -> None:
        """Kill all workers immediately."""
        self._client.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.kill()
            return
        try:
            self.join()
        except WorkersStopped:
            pass  # stopped inside the block

    def _result(self, rank: int) -> Any:
        content = read_all(self.result_fds[rank])
        if content[:1] != RETURNED:
            code = self._client.codes.get(rank)
            raise NoResult(rank, "it never ran" if code is None else ending_in_words(code))
        try:
            return pickle.loads(memoryview(content)[1:])  # noqa: S301  written by our own worker
        except Exception as error:
            raise NoResult(rank, f"it cannot be read here: {type(error).__name__}: {error}") from error

    def _raise_failure(self) -> None:
        client = self._client
        if client.kind is None:
            raise NodeLost(ending_in_words(client.node_code))
        if not client.failures:
            if client.timed_out and self._timeout is not None:
                raise TimedOut(self._timeout)
            if client.kind == STOPPED and client.exit_code != TRY_AGAIN:
                raise WorkersStopped
            return
        rank, code, cause, ran = client.failures[0]
        if cause == SHEPHERD_LOST:
            raise NodeLost(ending_in_words(code))
        content = read_all(self.result_fds[rank])
        if content[:1] == UNGUARDED:
            raise MissingGuard
        error = content[1:].decode(errors="replace") if content[:1] == RAISED else ""
        summary, _, traceback = error.partition("\n")
        message = culprit_in_words(FailedWorker(rank=rank, cause=cause, code=code, ran=ran))
        if cause == NOT_STARTED:
            message += f": {os.strerror(client.start_errors[rank])}"
        elif summary:
            message += f": {summary}"
        raise WorkerFailed(message, rank, code, traceback, self._logs[rank] if self._logs else "")
