"""All output of a running job: lines of workers on stdout, flota's own on stderr and in its files."""

from __future__ import annotations

import os
import stat
import time

from flota.frameworks import left_out, shown_variables
from flota.host.loop import WRITABLE, Loop
from flota.humanize import restart_in_words, signal_name
from flota.job.plan import Worker, lead_role
from flota.job.report import STOPPED, SUCCEEDED, FailedWorker, Report, exception_message, report_as_dict
from flota.job.roles import COORDINATOR, HETER, SERVER, TRAINER, label
from flota.job.roster import Roster
from flota.job.spec import ERR, OUT, WARNING, JobSpec
from flota.logs.directory import give_name, open_append, remove, reopen, write_whole
from flota.logs.follow import RANK_COLOURS, FollowedLog, LogFollower
from flota.logs.nonblocking_writer import NonblockingWriter
from flota.logs.own_logs import LEVELS, EventLog, OwnLog, event_in_words, to_json_lines
from flota.run.job_messages import start_message, stopped_message, success_message
from flota.run.start import Started
from flota.supervise.actions import StartRound
from flota.supervise.events import Event, ShepherdLost, StartFailed, StopRequested, WorkerExited, WorkerStarted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.logs.rotation import RotatingLog
    from flota.logs.status_line import StatusLine

ENDPOINT_LISTS = {
    TRAINER: "PADDLE_TRAINER_ENDPOINTS",
    SERVER: "PADDLE_PSERVERS_IP_PORT_LIST",
    HETER: "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST",
    COORDINATOR: "PADDLE_COORDINATOR_ENDPOINTS",
}
POLL_INTERVAL = 0.05  # seconds between polls of the logs where the system does not report changes


class Console:
    def __init__(self, spec: JobSpec, environ: Mapping[str, str], loop: Loop) -> None:
        self.spec = spec
        self.loop = loop
        self.out = NonblockingWriter(1)
        self.err = NonblockingWriter(2)
        own, events = self._own_paths()
        colour = os.isatty(2) and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        problems: list[str] = []
        self.own_log = OwnLog(
            own, self.err, spec.log.level, quiet=spec.log.quiet, colour=colour, on_error=problems.append
        )
        on_console = self.err if spec.log.events_on_console else None
        self.events = EventLog(events, spec.job_id, os.uname().nodename, on_console, problems.append)
        self.say = self.own_log.write_line
        self._shows_events = LEVELS[spec.log.level] <= LEVELS["DEBUG"]
        terminal = os.isatty(1) and environ.get("TERM") != "dumb"
        self._coloured_ranks = terminal and not environ.get("NO_COLOR")
        self.follower = LogFollower(self.out, timestamps=spec.log.timestamps, terminal=terminal)
        self.status: StatusLine | None = None  # None until there is something to show
        shown = spec.log.progress == "auto" and not (spec.log.quiet or spec.interactive)
        self.shows_status = shown and terminal and bool(environ.get("TERM"))
        if os.isatty(1) and os.isatty(2) and os.path.sameopenfile(1, 2):
            self.err.before_write = self.end_line
        self._copies: dict[str, int] = {}
        self._closed = False, False  # whether the writers were closed before `hide`
        self._shows_blocks = False
        if self.follower.inotify >= 0:
            loop.watch(self.follower.inotify, self.follower.on_changed)
        for problem in problems:
            self.say("WARNING", problem)

    def _own_paths(self) -> tuple[str, str]:
        """Empty while the directory of this run is not known."""
        if self.spec.log.per_run:
            return "", ""
        directory, node, job = self.spec.log.directory, os.uname().nodename, self.spec.job_id.replace("/", "_")
        return f"{directory}/{job}.{node}.log", f"{directory}/events.{node}.jsonl"

    def use_directory(self, spec: JobSpec) -> None:
        """The directory of this run is known now."""
        self.spec = spec
        own, events = self._own_paths()
        give_name(self.own_log.file, own)
        give_name(self.events.file, events)

    def _reopen_removed_logs(self) -> None:
        """Go on in a new log directory if the directory was removed."""
        logs = zip((self.own_log.file, self.events.file), self._own_paths(), strict=True)
        removed = [(log, path) for log, path in logs if _is_removed(log)]
        if not removed or self.spec.log.per_run:
            return
        for log, path in removed:
            reopen(log, path)
        directory = self.spec.log.directory
        self.say("WARNING", f"files in the log directory {directory} were removed; creating new ones")

    # Messages of flota.

    def event(self, event: str, **facts: object) -> None:
        """Write an event to events.<node>.jsonl, and at level DEBUG also as a message."""
        self.events.write(event, **facts)
        if self._shows_events:
            self.say("DEBUG", event_in_words(event, facts))

    def begin_job(self, configuration: tuple[tuple[str, str], ...], notes: tuple[str, ...]) -> None:
        if not self.spec.log.per_run:
            remove(f"{self.spec.log.directory}/report.json")  # from an earlier job
        for note in notes:
            self.say("WARNING" if note.startswith(WARNING) else "INFO", note.removeprefix(WARNING))
        self._shows_blocks = bool(configuration)
        if configuration:
            from flota.logs.start_blocks import columns_of, configuration_block

            self.own_log.write_text("INFO", configuration_block(configuration, columns_of(2)))

    def show_first_round(self, started: Started, began: float) -> None:
        """`began`: when this node began, on the monotonic clock."""
        self.event("job_started", world_size=started.roster.workers, pid=os.getpid(), began=began)
        main = [plan for plan in started.plans if plan.worker.role == self.spec.main]
        env = (main or started.plans)[0].env
        if self._shows_blocks:
            self._show_variables(env, len(started.plans))
        if not self.spec.nodes:
            self.say("INFO", start_message(self.spec, os.uname().nodename, os.getcwd()))
        for name in left_out(self.spec, env):
            self.say("WARNING", f"{name} is not set: the list of all workers is too long for one variable")
        for name in dict.fromkeys(role.name for role in self.spec.all_roles):
            stages = [role for role in self.spec.all_roles if role.name == name]
            workers, devices = sum(role.workers for role in stages), len(self.spec.devices_for(stages[-1]).chosen)
            if 0 < devices < workers:
                who = "workers" if name == TRAINER else f"{name} workers"
                self.say("WARNING", f"{workers} {who} share {devices} device{'s' * (devices > 1)}")

    def _show_variables(self, env: Mapping[str, str], workers: int) -> None:
        from flota.logs.start_blocks import columns_of, start_line, variable_table

        env = {**env, **dict(self.spec.instance_env)}
        rows = [(name, env[name]) for name in shown_variables(self.spec, env)]
        columns = columns_of(2)
        self.own_log.write_text("INFO", f"{start_line(workers, columns)}\n{variable_table(rows, columns)}")

    def _save(self, name: str, text: str) -> None:
        try:
            write_whole(f"{self.spec.log.directory}/{name}", text)
        except OSError as error:
            self.say("WARNING", f"cannot write {name}: {error.strerror}")  # a full disk must not stop the job

    def record(self, event: Event, started: Started, **facts: object) -> None:
        """Write an event to events.<node>.jsonl. `facts`: what else is known about it."""
        if isinstance(event, WorkerStarted):
            devices = started.plans[event.worker].worker.devices
            known = {**({"devices": list(devices)} if devices else {}), **facts}
            self.event("worker_started", **_worker_fields(started, event.worker), pid=event.pid, at=event.at, **known)
        elif isinstance(event, StartFailed):
            self.event("start_failed", **_worker_fields(started, event.worker), error=os.strerror(event.errno))
        elif isinstance(event, WorkerExited):
            self.event(
                "worker_exited",
                **_worker_fields(started, event.worker),
                code=event.code,
                asked_to_stop=event.asked_to_stop,
                at=event.at,
                **facts,
            )
        elif isinstance(event, ShepherdLost):
            self.event("shepherd_lost", code=event.code)
        elif isinstance(event, StopRequested):
            self.event("stop_requested", signal=signal_name(event.signal))

    def report_restart(self, action: StartRound, culprit: FailedWorker) -> None:
        from flota.failures.report_text import culprit_in_words, restart_details

        restart = restart_in_words(action.attempt, self.spec.restarts, action.delay)
        self.pump()  # the last output of the round comes first
        self.say("WARNING", f"{culprit_in_words(culprit, first=False)}; {restart}", *restart_details(culprit))

    def make_ledger(self, report: Report) -> dict[str, object]:
        """Where the time of this node's workers went."""
        from flota.ledger.ledger import ledger_as_dict
        from flota.ledger.read_events import node_ledger

        _, events = self._own_paths()
        ledger = node_ledger(events, time.monotonic(), report_as_dict(report)) if events else None
        return ledger_as_dict(ledger) if ledger else {}

    def write_report(self, report: Report, *, to_file: bool) -> None:
        """Write the report for programs, before any output that may block on a terminal. `to_file`: this node also
        writes report.json."""
        self._reopen_removed_logs()
        facts = {"exit_code": report.exit_code, "report": report_as_dict(report)}
        self.event("job_ended", verdict=report.verdict.kind, **facts)
        if to_file:
            self.save_report(report)

    def save_report(self, report: Report) -> None:
        if not self.spec.interactive:
            self._save("report.json", to_json_lines(report_as_dict(report)))

    def show_report(self, report: Report, printed_by: str = "") -> None:
        """Print how the job ended. `printed_by`: the node that prints this for all, if another one does."""
        if printed_by and report.failed:
            from flota.failures.report_text import culprit_in_words

            culprit = culprit_in_words(report.failed[0], name_host=True, first=False)
            self.say("ERROR", f"{culprit}; the report is printed by {printed_by}")
        self.own_log.file_only = bool(printed_by)
        if report.verdict.kind == SUCCEEDED:
            self.say("INFO", success_message(report))
            return
        if report.failed:
            self._show_failures(report)
        elif report.verdict.reason and report.verdict.kind != STOPPED:
            self.say("ERROR", report.verdict.reason)
        if report.verdict.kind == STOPPED:
            self.say("INFO", stopped_message(report))

    def _show_failures(self, report: Report) -> None:
        """Print the failure report, without the culprit's traceback if the console has just shown it."""
        from flota.failures.report_text import failure_report

        lines = failure_report(report, verbose=self.spec.log.verbose)
        culprit = report.failed[0]
        shown = any(stream.path == culprit.log for stream in self.follower.logs) and os.path.sameopenfile(1, 2)
        brief = culprit._replace(said=tuple(exception_message(culprit)))
        short = failure_report(report._replace(failed=(brief, *report.failed[1:]))) if shown and brief.said else lines
        self.own_log.write_text("ERROR", "\n".join(lines), "\n".join(lines if self.spec.log.verbose else short))

    # While a view uses the terminal.

    def hide(self) -> None:
        """Write to files only."""
        self._closed = self.out.closed, self.err.closed
        self.out.closed = self.err.closed = True

    def show(self) -> None:
        """Go on with new output; what was written meanwhile is in the files."""
        self.out.closed, self.err.closed = self._closed
        self.follower.skip_to_ends()

    # Output of workers.

    def begin_round(self, started: Started) -> None:
        if self.spec.interactive:
            return
        self._reopen_removed_logs()
        # Every node writes it, as with Paddle: in a shared directory, all of them write the same.
        self._save("endpoints.log", "".join(f"{line}\n" for line in _endpoint_lines(self.spec, started.roster)))
        for log in started.rotating:
            self._start_copying(log)
        self.follower.keep_only(started.marks)  # a node with another seat has other ranks and logs
        self.follower.follow_replaced()
        if not self.follower.logs:
            self._follow(started)
        for stream in self.follower.logs:
            stream.skip(*started.marks[stream.path])

    def _follow(self, started: Started) -> None:
        """A stream with its own file is shown if tee'd; a shared file is shown if its rank is shown."""
        log_spec, node = self.spec.log, started.roster.seats[started.seat].host
        lead = lead_role(self.spec, started.roster)
        shown: list[tuple[Worker, str, int]] = []
        for worker in (plan.worker for plan in started.plans):
            for path in worker.logs:
                kind = OUT if path.endswith(".out") else ERR if path.endswith(".err") else 0
                shows = log_spec.shows(worker.rank) if worker.role == lead else log_spec.console == "all"
                if log_spec.teed(worker.rank) & kind if kind else shows:
                    shown.append((worker, path, kind))
        several = len({(worker.name, worker.rank) for worker, _, _ in shown}) > 1
        for worker, path, kind in shown:
            words = {OUT: log_spec.stdout_filters, ERR: log_spec.stderr_filters}.get(kind, ())
            copy = self._copy("filtered_stdout.log" if kind == OUT else "filtered_stderr.log") if words else -1
            prefix = self._line_prefix(worker, node, several=several).encode(errors="surrogateescape")
            colour = RANK_COLOURS[worker.rank % len(RANK_COLOURS)] if self._coloured_ranks else b""
            try:
                self.follower.follow(FollowedLog(path, prefix, [os.fsencode(word) for word in words], copy, colour))
            except OSError as error:
                self.say("WARNING", f"cannot show {path}: {error.strerror}")

    def _line_prefix(self, worker: Worker, node: str, *, several: bool) -> str:
        """What each line of a worker begins with: torch's template, or the node and the rank if several are shown."""
        if self.spec.log.prefix:
            from string import Template

            role = self.spec.role if worker.name == TRAINER else worker.name
            ranks = {"rank": worker.rank, "local_rank": worker.local_rank}
            return Template(self.spec.log.prefix).safe_substitute(ranks, role_name=role, hostname=os.uname().nodename)
        name = f"{worker.rank}" if worker.name == TRAINER else label(worker.name, worker.rank)
        return f"[{node}:{name}] " if several else ""

    def _copy(self, name: str) -> int:
        if name not in self._copies:
            self._copies[name] = open_append(f"{self.spec.log.directory}/{name}")
        return self._copies[name]

    def end_round(self, started: Started) -> None:
        """All writers have exited: copy the rest of the pipes to the logs, and show the logs to their ends."""
        for log in started.rotating:
            while self.loop.watches(log.fd):
                self._copy_to_log(log)
        self.follower.mark_all_changed()

    def _start_copying(self, log: RotatingLog) -> None:
        log.on_rotated = self.follower.rotated
        log.on_error = lambda text: self.say("WARNING", text)
        self.loop.watch(log.fd, lambda: self._copy_to_log(log))

    def _copy_to_log(self, log: RotatingLog) -> None:
        if not log.on_ready():
            self.loop.forget(log.fd)

    def show_status(self, text: str) -> None:
        """Show this line below the output, or none."""
        if text and not self.status:
            from flota.logs.status_line import StatusLine

            self.status = StatusLine(self.follower)
        if self.status:
            self.status.text = text
            self.status.refresh(time.monotonic())

    def end_line(self) -> None:
        """Let another writer to the same terminal begin at the start of an empty line."""
        if self.status:
            self.status.erase()
        self.follower.end_line()

    def poll_timeout(self, wait: float | None) -> float | None:
        """How long the loop may wait for events, at most `wait`."""
        wait = self.status.until(wait, time.monotonic()) if self.status else wait
        if self.follower.busy:
            return 0
        if self.follower.needs_polling and self.follower.logs:
            self.follower.mark_all_changed()
            return min(POLL_INTERVAL, wait) if wait is not None else POLL_INTERVAL
        return self.follower.until_bars(wait)

    def pump(self) -> None:
        self.follower.pump()
        if self.status:
            self.status.refresh(time.monotonic())
        self._update_inotify_watch()
        for writer in (self.out, self.err):
            if writer.pending and not self.loop.watches(writer.fd):
                self.loop.watch(writer.fd, writer.flush, WRITABLE)
            elif not writer.pending and self.loop.watches(writer.fd):
                self.loop.forget(writer.fd)

    def _update_inotify_watch(self) -> None:
        """Watch for new output only while it can be shown: otherwise every write of a worker would wake the loop."""
        inotify = self.follower.inotify
        if inotify < 0:
            return
        watched, needed = self.loop.watches(inotify), not (self.out.pending or self.out.closed) or bool(self._copies)
        if watched and not needed:
            self.loop.forget(inotify)
        elif needed and not watched:
            self.loop.watch(inotify, self.follower.on_changed)
            self.follower.mark_all_changed()

    def has_more(self) -> bool:
        return self.follower.busy or self.out.pending or self.err.pending


def _is_removed(log: int) -> bool:
    info = os.fstat(log)
    return stat.S_ISREG(info.st_mode) and not info.st_nlink


def _worker_fields(started: Started, number: int) -> dict[str, object]:
    worker = started.plans[number].worker
    return {"rank": worker.rank, **({} if worker.name == TRAINER else {"role": worker.name})}


def _endpoint_lines(spec: JobSpec, roster: Roster) -> list[str]:
    """All endpoints by role, under Paddle's names, trainers first."""
    lines: dict[str, list[str]] = {ENDPOINT_LISTS[TRAINER]: []}
    for number, role in enumerate(spec.all_roles):
        name = ENDPOINT_LISTS.get(role.name, f"{role.name} endpoints")
        lines.setdefault(name, []).extend(roster.endpoints(number))
    return [line for name, endpoints in lines.items() if endpoints for line in (f"{name}:", *endpoints)]
