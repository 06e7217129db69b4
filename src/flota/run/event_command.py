"""Runs the command of --on_event, one at a time, with the event as JSON on its standard input."""

from __future__ import annotations

import os
import time
from _collections_abc import Mapping

from flota.failures.report_text import culprit_in_words
from flota.frameworks import SECRETS
from flota.host.bounded_command import BoundedCommand, CommandEnd
from flota.humanize import ending_in_words, restart_in_words
from flota.job.causes import is_hang
from flota.job.printable import printable
from flota.job.report import FAILED, STOPPED, SUCCEEDED, FailedWorker, Report, failure_as_dict
from flota.logs.own_logs import to_json, utc_time
from flota.run.console import Console
from flota.run.job_messages import stopped_message, success_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.run.node_watch import NodeWatch

FAILURE, HANG, RESTART, END = "failure", "hang", "restart", "end"
LIMIT = 10.0  # seconds for one command, and at the end of the job for all that wait
MOST_WAITING = 16


class EventCommand:
    """`deadline`: when `on_time` must be called."""

    def __init__(self, console: Console, environ: Mapping[str, str]) -> None:
        self._console = console
        self._env = {name: value for name, value in environ.items() if name not in SECRETS}
        self._running: BoundedCommand | None = None
        self._waiting: list[tuple[str, bytes]] = []  # kinds, and what the command reads
        self._last_call: float | None = None  # at the end of the job: when only the command for the end may run
        self._warned: set[str] = set()

    @property
    def busy(self) -> bool:
        return self._running is not None

    @property
    def deadline(self) -> float | None:
        return self._running.deadline if self._running else None

    def on_time(self, now: float) -> None:
        if self._running:
            self._running.on_time(now)

    # The events.

    def report_failure(self, culprit: FailedWorker, round_number: int, attempt: int) -> None:
        kind = HANG if is_hang(culprit.code, culprit.cause) else FAILURE
        message = culprit_in_words(culprit, name_host=self._several, first=False)
        self._add(kind, message, round_number, attempt, culprit=culprit)

    def report_restart(
        self, round_number: int, attempt: int, delay: float, culprit: FailedWorker | None, reason: str
    ) -> None:
        """`culprit`: the restart is counted and follows its failure, which is an event of its own."""
        if culprit:
            self.report_failure(culprit, round_number - 1, attempt - 1)
            cause = culprit_in_words(culprit, name_host=self._several, first=False)
            message = f"{cause}; {restart_in_words(attempt, self._console.spec.restarts, delay)}"
        else:
            message = f"{reason}; starting a new round"
        self._add(RESTART, message, round_number, attempt, culprit=culprit, reason=reason)

    def finish(self, node: NodeWatch) -> None:
        """Wait for the command: it has a time limit. A stop signal ends the wait; then its shepherd kills it."""
        while self.busy and not node.exit_now:
            left = (self.deadline or 0.0) - time.monotonic()
            node.loop.turn(self._console.poll_timeout(max(0.0, left)))
            self._console.pump()
            self.on_time(time.monotonic())

    def report_end(self, report: Report, round_number: int) -> None:
        verdict, culprit = report.verdict, report.failed[0] if report.failed else None
        if culprit:
            self.report_failure(culprit, round_number, verdict.attempt)
        message = verdict.reason
        if verdict.kind == SUCCEEDED:
            message = success_message(report)
        elif verdict.kind == STOPPED:
            message = stopped_message(report)
        elif verdict.kind == FAILED and culprit:
            message = culprit_in_words(culprit, name_host=self._several)
        facts = {"verdict": verdict.kind, "exit_code": verdict.exit_code, "seconds": round(report.seconds, 3)}
        self._last_call = time.monotonic() + LIMIT
        self._add(END, message, round_number, verdict.attempt, culprit=culprit, reason=verdict.reason, **facts)

    @property
    def _several(self) -> bool:
        return self._console.spec.nodes is not None

    def _add(
        self,
        kind: str,
        message: str,
        round_number: int,
        attempt: int,
        *,
        culprit: FailedWorker | None,
        reason: str = "",
        **facts: object,
    ) -> None:
        spec = self._console.spec
        event = {
            "event": kind,
            "time": utc_time(),
            "job_id": spec.job_id,
            "node": os.uname().nodename,
            "round": round_number,
            "attempt": attempt,
            "message": message,
            "reason": reason or None,
            "culprit": failure_as_dict(culprit) if culprit else None,
            "verdict": None,
            "exit_code": None,
            "seconds": None,
            **facts,
            "log_dir": spec.log.directory,
        }
        if len(self._waiting) >= MOST_WAITING and kind != END:
            self._warn(
                "dropped", f"is too slow for the events of this job: more than {MOST_WAITING} wait; dropping some"
            )
            return
        self._waiting.append((kind, f"{to_json(event)}\n".encode(errors="surrogateescape")))
        self._proceed()

    # The command.

    def _proceed(self) -> None:
        while self._waiting and not self._running:
            limit = LIMIT
            if self._last_call is not None and len(self._waiting) > 1:
                limit = self._last_call - time.monotonic()
                if limit <= 0:
                    del self._waiting[:-1]
                    continue
            kind, text = self._waiting.pop(0)
            try:
                self._running = self._start(kind, text, limit)
            except OSError as error:
                self._warn("start", f"could not be run: {error.strerror}")

    def _start(self, kind: str, text: bytes, limit: float) -> BoundedCommand:
        argv = ("/bin/sh", "-c", self._console.spec.on_event)
        loop = self._console.loop
        return BoundedCommand(argv, self._env, text, limit, loop, lambda end: self._on_end(kind, end))

    def _on_end(self, kind: str, end: CommandEnd) -> None:
        self._running = None
        lines = [printable(line) for line in end.output.decode(errors="replace").splitlines() if line.strip()]
        if end.code is None:
            self._warn("late", f"did not end within {LIMIT:g} s after a `{kind}` event and was killed", *lines[-1:])
        elif end.code:
            self._warn("failed", f"failed for a `{kind}` event: {ending_in_words(end.code)}", *lines[-1:])
        self._console.say("DEBUG", f"the --on_event command has ended after a `{kind}` event", *lines)
        self._proceed()

    def _warn(self, trouble: str, words: str, *details: str) -> None:
        """Once per kind of trouble: a command that does not work must not fill the terminal."""
        if trouble not in self._warned:
            self._warned.add(trouble)
            self._console.say("WARNING", f"the --on_event command {words}", *details)
