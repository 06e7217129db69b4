"""Runs a job over ssh: checks all hosts, starts a node on each, shows their output, and passes signals on."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import time

from flota import __version__
from flota.engines import ssh_session as states
from flota.engines.ssh import WINDOW, SshPlan
from flota.engines.ssh_messages import (
    Detached,
    Go,
    Hello,
    HostAnswer,
    HostQuestion,
    UnreadableLine,
    clock_error,
    decode,
    encode,
)
from flota.engines.ssh_session import LOST, HostSession
from flota.engines.tools import say
from flota.errors import TRY_AGAIN, USAGE
from flota.errors.hosts import HostsNotReady
from flota.host.lifeline import BEAT, KNOWN
from flota.host.loop import WRITABLE, Loop
from flota.host.process_start import raise_open_files
from flota.host.signals import Signals
from flota.humanize import signal_name
from flota.job.printable import printable
from flota.job.roster import endpoint
from flota.logs.nonblocking_writer import NonblockingWriter

CHECK_TIMEOUT = 60.0  # seconds for a host to answer
SYNC_TIMEOUT = 600.0
CLOCK = 1.0  # seconds by which a host's clock may be wrong
PATIENCE = 10.0  # seconds, besides the grace, until the other nodes of a job have ended
OWN_FILES, FILES_PER_HOST = 64, 3
PASSED_ON = ("SIGUSR1", "SIGUSR2")
KILL = 9


class Launcher:
    def __init__(self, plan: SshPlan) -> None:
        self.plan = plan
        raise_open_files(OWN_FILES + FILES_PER_HOST * len(plan.hosts))
        self.loop = Loop()
        self.out, self.err = NonblockingWriter(1), NonblockingWriter(2)
        self.sessions = [HostSession(number, host, self.loop) for number, host in enumerate(plan.hosts)]
        self.stopped_by = 0
        self._stops = 0
        self._next_beat = 0.0
        self._stop_at: float | None = None  # when to stop the nodes that wait for one that has ended
        self._cause: HostSession | None = None  # that one
        # SIGTSTP is ignored: a job cannot be suspended, because its nodes would take this launcher for dead.
        _signal.signal(_signal.SIGTSTP, _signal.SIG_IGN)
        self.signals = Signals([*KNOWN, "SIGCHLD"])
        self.loop.watch(self.signals.fd, self._on_signals)

    def start(self) -> None:
        """Check all hosts, and start a node on each unless the user has stopped it. Raises HostsNotReady."""
        try:
            self._check()
            if not self.stopped_by:
                self._start_nodes()
        except BaseException:
            self._close()
            raise

    def follow(self) -> int:
        """Show the job's output until it ends, and return its exit code."""
        try:
            if not any(session.state == states.RUNNING for session in self.sessions):
                return 128 + self.stopped_by
            if self.plan.detach:
                return self._report_detached()
            while any(session.state == states.RUNNING for session in self.sessions):
                self._turn()
            return self._conclude()
        finally:
            self._close()

    def stop(self) -> None:
        """Ask the nodes to stop: workers save."""
        self._write_all(b"SIGTERM\n")

    def kill(self) -> None:
        """End the connections, and with them the nodes."""
        for session in self.sessions:
            session.close()
            session.state = states.ENDED
            session.code = 128 + (self.stopped_by or KILL) if session.code is None else session.code

    def _close(self) -> None:
        for session in self.sessions:
            session.close()
        while self.out.pending or self.err.pending:
            self.loop.turn(None)

    # The check.

    def _check(self) -> None:
        """Ask all hosts, some at a time, unless the user stops it."""
        while not all(session.answered for session in self.sessions):
            if self.stopped_by:
                return
            self._fill_window()
            self._turn()
            self._check_deadlines(time.monotonic())
        problems = [(session.host.label, problem) for session in self.sessions for problem in session.problems]
        if problems:
            raise HostsNotReady(problems, len(self.sessions), _hint(problems))
        for session in self.sessions:
            self._warn_of_clock(session)

    def _fill_window(self) -> None:
        going = sum(states.WAITING < session.state < states.READY for session in self.sessions)
        for session in [one for one in self.sessions if one.state == states.WAITING][: max(WINDOW - going, 0)]:
            self._begin(session, states.SYNCING if self.plan.sync else states.CONNECTING)

    def _begin(self, session: HostSession, state: int) -> None:
        command = self.plan.sync_command if state == states.SYNCING else self.plan.node_command
        session.state, session.since = state, time.monotonic()
        session.start(
            command(session.host),
            lambda data: self._on_output(session, data),
            lambda data: self._on_errors(session, data),
        )

    def _check_deadlines(self, now: float) -> None:
        for session in self.sessions:
            limit = SYNC_TIMEOUT if session.state == states.SYNCING else CHECK_TIMEOUT
            if states.WAITING < session.state < states.READY and now > session.since + limit:
                self._refuse(session, f"no answer within {limit:g} s")

    def _refuse(self, session: HostSession, *problems: str) -> None:
        session.problems += problems
        session.close()
        session.state = states.ENDED

    def _on_message(self, session: HostSession, line: bytes) -> None:
        """A line of a node that has not started."""
        try:
            self._read_message(session, line)
        except UnreadableLine as error:
            self._refuse(session, f"the answer of {self.plan.python} cannot be read: {printable(str(error))}")

    def _read_message(self, session: HostSession, line: bytes) -> None:
        if session.state == states.CONNECTING:
            version = printable(decode(line, Hello).version)
            if version != __version__:
                self._refuse(session, f"{self.plan.python} has flota {version}, and {__version__} is used here")
                return
            job, first = self.plan.job, session.number == 0
            several = len(self.sessions) > 1
            question = HostQuestion(self.plan.directory, job.kind, job.target, self.plan.digest, first, several)
            session.state, session.asked_at = states.ASKED, time.time()
            session.write(encode(question), wait=True)
        elif session.state == states.ASKED:
            session.answer, session.answered_at = decode(line, HostAnswer), time.time()
            session.state = states.READY
            if session.answer.problems:
                self._refuse(session, *(printable(str(problem)) for problem in session.answer.problems))
        elif session.state == states.RUNNING:
            session.pid = decode(line, Detached).pid

    def _warn_of_clock(self, session: HostSession) -> None:
        assert session.answer
        wrong = clock_error(session.asked_at, session.answered_at, session.answer.time)
        if abs(wrong) > CLOCK:
            direction = "ahead of" if wrong > 0 else "behind"
            say(f"warning: the clock of {session.host.label} is {abs(wrong):.1f} s {direction} the one here")

    # The job.

    def _start_nodes(self) -> None:
        first = self.sessions[0].answer
        assert first
        master = endpoint(first.address, str(first.port))
        for session in self.sessions:
            console = f"{self.plan.log_dir}/console.{session.host.label}.log" if self.plan.detach else ""
            words = self.plan.node_words(session.number, master)
            session.state = states.RUNNING
            session.write(encode(Go(words, self.plan.job.token, self.plan.env, console)), wait=True)

    def _turn(self) -> None:
        now = time.monotonic()
        if now >= self._next_beat:
            self._next_beat = now + BEAT
            self._write_all(b"\n")
        if self._stop_at is not None and now >= self._stop_at:
            assert self._cause
            self._stop_at = None
            say(f"stopping the job: {self._cause.host.label} has ended")
            self.stop()
        self.loop.turn(self._next_beat - now)
        self._watch_console()
        for session in self.sessions:
            if session.reap():
                self._on_exit(session)

    def _write_all(self, line: bytes) -> None:
        for session in self.sessions:
            beats = session.state == states.READY and line == b"\n"
            if beats or (session.state == states.RUNNING and not self.plan.detach):
                session.write(line)

    def _on_signals(self) -> None:
        for number in self.signals.read():
            name = signal_name(number)
            if name not in KNOWN:
                continue
            if name not in PASSED_ON:
                self.stopped_by = self.stopped_by or number
                self._stops += 1
            self._write_all(f"{name}\n".encode())
            if self._stops > 2:  # the first stops the job, the second kills the workers
                self.kill()

    def _on_output(self, session: HostSession, data: bytes) -> None:
        if session.state != states.RUNNING or self.plan.detach:
            for line in session.messages(data):
                self._on_message(session, line)
        elif self.plan.by_line:
            self.out.write(*(line + b"\n" for line in session.lines(data)))
        else:
            self.out.write(data)

    def _on_errors(self, session: HostSession, data: bytes) -> None:
        """Every node reports what happens to the job: show what the first one says."""
        session.keep_errors(data)
        if session.state == states.RUNNING and session.number == 0:
            self.err.write(data)

    def _watch_console(self) -> None:
        """Read no output while the console is blocked: then the nodes keep it in their logs."""
        for writer in (self.out, self.err):
            if writer.pending and not self.loop.watches(writer.fd):
                self.loop.watch(writer.fd, writer.flush, WRITABLE)
            elif not writer.pending and self.loop.watches(writer.fd):
                self.loop.forget(writer.fd)
        for session in self.sessions:
            if session.state == states.RUNNING:
                session.listen(also=not self.out.pending)

    def _on_exit(self, session: HostSession) -> None:
        if session.state == states.SYNCING and session.code == 0:
            self._begin(session, states.CONNECTING)
        elif session.state < states.RUNNING:
            self._refuse(session, session.explain_end(self.plan.python))
        elif session.state == states.RUNNING:
            session.state = states.ENDED
            if self.plan.by_line and session.rest:
                self.out.write(session.rest + b"\n")
            if session.code and not self.plan.detach:
                self._on_failed_node(session, session.code)

    def _on_failed_node(self, session: HostSession, code: int) -> None:
        """The other nodes know why and end as well. But they may wait for one that was not admitted or was lost: no
        other node will join."""
        refused = code == USAGE and b"flota: error: " in session.errors
        if code == LOST and not self.stopped_by:
            say(f"warning: lost the connection to {session.host.label}")
        alive = sum(one.state == states.RUNNING for one in self.sessions)
        if self._cause is None and alive < self.plan.job.least:
            self._cause = session
            grace = 30.0 if self.plan.job.grace is None else self.plan.job.grace
            self._stop_at = time.monotonic() + (1.0 if refused else grace + PATIENCE)

    # The end.

    def _conclude(self) -> int:
        """The job's exit code, which is that of every node that knows how the job ended. Shows the messages of another
        node if the first one was lost, and those of nodes that ended differently."""
        codes = [session.code for session in self.sessions if session.code not in (None, LOST)]
        stopped = self._stop_at is None and self._cause is not None
        code = codes[0] if codes else LOST
        if stopped and self._cause and self._cause.code:
            code = TRY_AGAIN if self._cause.code == LOST else self._cause.code
        assert code is not None
        first = self.sessions[0]
        others = {one.code: one for one in reversed(self.sessions[1:]) if one.code != first.code or first.code == LOST}
        for session in others.values():
            if session.code and session.errors:
                text = session.errors.decode(errors="replace").rstrip("\n")
                lines = "".join(f"{session.host.label}: {line}\n" for line in text.split("\n"))
                self.err.write(lines.encode(errors="replace"))
        self._watch_console()
        return code

    def _report_detached(self) -> int:
        while any(session.state == states.RUNNING for session in self.sessions):
            self._turn()
        lost = [(one.host.label, one.explain_end(self.plan.python)) for one in self.sessions if not one.pid]
        for host, why in lost:
            say(f"warning: {host} did not start: {why}")
        first = self.sessions[0]
        say(f"the job runs on {len(self.sessions) - len(lost)} hosts; its output is in {self.plan.log_dir} there")
        if first.pid:
            number = str(first.pid)
            say(f"`{self.plan.later_command(first.host, 'logs', '-f', '--job', number)}` shows rank 0")
            say(f"`{self.plan.later_command(first.host, 'stop', '--job', number)}` stops it; workers may save first")
        return 1 if lost else 0


def _hint(problems: list[tuple[str, str]]) -> str:
    text = "\n".join(problem for _, problem in problems)
    if "cannot read" in text or "differs" in text or "cannot enter" in text:
        return "--sync copies this directory to the hosts first; --chdir names another directory there"
    if "flota" in text or "interpreter" in text:
        return "name an interpreter that has this version of flota with --remote_python"
    return f"try `ssh {problems[0][0]} true`" if "cannot connect" in text else ""
