"""Console messages about the other nodes: how to join, which are missing, lost or refused, and what happens next."""

import os
import shlex
import time
from collections.abc import Callable

from flota.cluster.job_state import GATHERING, RUNNING, JobState
from flota.cluster.member import Member
from flota.cluster.seating import names_for_users
from flota.cluster.store_access import StoreAccess
from flota.failures.report_text import culprit_in_words, restart_details
from flota.failures.roll_call import KIND as ROLL_CALL
from flota.host.ports import owner_of_port
from flota.humanize import list_in_words, restart_in_words, workers_in_words
from flota.job.causes import is_hang
from flota.job.nodes import NodesSpec
from flota.job.plan import lead_role
from flota.job.roles import label
from flota.job.roster import endpoint
from flota.logs.directory import remove, write_whole
from flota.run.console import Console
from flota.run.start import Started
from flota.stragglers.step_times import report_changes

FIRST_MESSAGE, NEXT_MESSAGE = 2.0, 10.0  # seconds without an answer until the first message, and between later ones
NAMED = 4  # nodes that a spare names
COPY = "Copy the following command to other nodes to run."
LINE = "-" * 80


class ClusterMessages:
    def __init__(self, console: Console, nodes: NodesSpec, quiet_seconds: Callable[[], float] = float) -> None:
        """`quiet_seconds`: for how long this node's workers have shown no sign of life."""
        self.console = console
        self.nodes = nodes
        self._quiet_seconds = quiet_seconds
        self._began = time.monotonic()
        self.deadline: float | None = None
        self._last: JobState | None = None
        self._rounds = 0
        self._is_spare = False
        self._called_at = 0.0  # when the round ended in which this node was a spare; 0: it goes on
        self._problems: set[str] = set()  # that were printed
        self._token_file = ""
        self._local_only = ""

    def introduce(self, configuration: tuple[tuple[str, str], ...], notes: tuple[str, ...], store: StoreAccess) -> None:
        first = self.nodes.rank == 0 or (self.nodes.rank < 0 and (self.nodes.etcd or store.master is not None))
        self._print(when=first)
        self.console.begin_job(configuration, notes)
        if store.chosen:
            self._show_command(store)
        self.warn(store)
        self._print(when=True)

    def _print(self, *, when: bool) -> None:
        """Where all nodes share one console, one of them prints what concerns the job."""
        self.console.own_log.file_only = self.console.spec.log.shared_console and not when

    def warn(self, store: StoreAccess) -> None:
        self._local_only = f"; {store.where} is reachable only from this machine" if store.is_local_only else ""
        if store.lacks_certificate:
            words = "this machine has the store's address, but cannot serve the store without --tls-cert and --tls-key"
            self.console.say("WARNING", words)
        if store.port_was_taken:
            port = self.nodes.places[0].port
            owner = owner_of_port(port) or "another program"
            self.console.say("INFO", f"port {port} is in use by {owner}: the nodes join at {store.where}")
        if store.accepts_anyone:
            who = "every user of this machine" if store.is_local_only else "anyone"
            self.console.say("WARNING", f"the store at {store.addresses} accepts {who}: set FLOTA_TOKEN on all nodes")

    def _show_command(self, store: StoreAccess) -> None:
        """On a terminal the command contains the token. A log must not, so there the token is in a file."""
        host, port = store.places[0]
        where = ("https://" if self.nodes.tls else "") + endpoint(host, str(port))
        if self.nodes.secrets.token:
            secret = ""  # the user has set it, and sets it on the other nodes as well
        elif os.isatty(1):
            secret = f"FLOTA_TOKEN={store.token} "
        else:
            self._token_file = f"{self.console.spec.log.directory}/token.{port}"
            write_whole(self._token_file, f"{store.token}\n", mode=0o600)
            secret = f"FLOTA_TOKEN_FILE={shlex.quote(self._token_file)} "
        command = f"{secret}flota --master {where} {shlex.join(self.nodes.words)}"
        self.console.out.write(f"{COPY}\n{LINE}\n{command}\n{LINE}\n".encode(errors="surrogateescape"))

    def close(self) -> None:
        if self._token_file:
            remove(self._token_file)

    def report_wrong_token(self, address: str) -> None:
        self.console.say("WARNING", f"refused a request from {address}: wrong FLOTA_TOKEN")

    def report_full_store(self, connections: int) -> None:
        words = f"the store has {connections} connections and no file descriptors left for more: raise `ulimit -n`"
        self.console.say("WARNING", words)

    def report(self, member: Member, now: float) -> None:
        self._report_silence(member, now)
        states, member.new_states = member.new_states, []
        self._print(when=member.coordinator is not None)
        for job_state in states:
            before, self._last = self._last or JobState(GATHERING), job_state
            self._report_state(job_state, before, member.follower.name)
        self._print(when=True)

    def _report_silence(self, member: Member, now: float) -> None:
        silent_since, since = member.silent_since, member.failing_since
        if since is None or member.follower.ending:
            self.deadline = None
        elif self.deadline is None:
            self.deadline = max(now, since + FIRST_MESSAGE)
        elif now >= self.deadline:
            self.deadline = now + NEXT_MESSAGE
            if silent_since is None:
                goes_on = "; the workers keep running" if member.follower.working else ""
                self.console.say("WARNING", f"the store is failing: {member.trouble}{goes_on}")
            elif member.follower.working:
                self.console.say("WARNING", f"no answer from {member.trouble}; the workers keep running")
            else:
                self.console.say("INFO", f"waiting for {member.trouble}")

    def _report_state(self, job_state: JobState, before: JobState, own: str) -> None:
        for node, refused in job_state.refused.items():
            if node != own and node not in before.refused:
                self.console.say("WARNING", f"{refused.host} was refused: {refused.why}")
        for problem in job_state.problems:
            if problem not in self._problems:
                self._problems.add(problem)
                self.console.say("WARNING", problem)
        gathers = job_state.phase == GATHERING
        if gathers and job_state.join_status and job_state.join_status != before.join_status:
            if self._rounds and not before.join_status:
                self.console.event("waiting_for_nodes", status=job_state.join_status)
            self.console.say("INFO", f"{job_state.join_status}{self._local_only}")
        if job_state.phase == RUNNING:
            self._note_spare(is_spare=job_state.is_spare(own))
            self._report_spares(job_state, before, own)
        elif self._is_spare and not self._called_at:
            self._called_at = time.monotonic()
        hangs = any(is_hang(failed.code, failed.cause) for failed in job_state.failures[:1])
        if job_state.asks(ROLL_CALL) and hangs and not before.failures:
            self._report_hang(job_state)
        if job_state.round == before.round:
            report_changes(self.console, before.slow, job_state.slow)
        elif job_state.round > before.round and gathers:
            self._report_next_round(job_state)

    def _note_spare(self, *, is_spare: bool) -> None:
        """For the ledger, in which the time as a spare does not count for any rank."""
        if is_spare and not self._is_spare and self._rounds:
            self.console.event("waiting_as_spare")
        self._is_spare, self._called_at = is_spare, 0.0

    def _report_spares(self, job_state: JobState, before: JobState, own: str) -> None:
        for row in (one for one in job_state.spares if not before.is_spare(one.node)):
            if row.node == own:
                nodes = list_in_words(list(names_for_users(job_state.seats).values()), NAMED)
                self.console.say("INFO", f"this node is a spare: it waits to replace one of {nodes}")
            else:
                self.console.say("INFO", f"{row.host} is a spare")
        for row in before.spares:
            if not job_state.is_spare(row.node) and job_state.seat_of(row.node) < 0:
                self.console.say("WARNING", f"the spare {row.host} is gone")

    def _report_hang(self, job_state: JobState) -> None:
        what, *where = job_state.failures[0].said or ("no activity",)
        suspects = [failed.rank for failed in job_state.failures if failed.rank >= 0]
        self.console.event("hang_found", suspects=suspects, quiet_seconds=self._quiet_seconds())
        self.console.say("WARNING", f"the job is hanging: {what}")
        self.console.own_log.write_text("WARNING", "\n".join(f"  {line}" for line in where))

    def _report_next_round(self, job_state: JobState) -> None:
        if job_state.failures:
            failed = job_state.failures[0]
            culprit = culprit_in_words(failed, name_host=True, first=False)
            self.console.pump()  # the last output of the round comes first
            restart = restart_in_words(job_state.attempt, self.console.spec.restarts, job_state.delay)
            self.console.say("WARNING", f"{culprit}; {restart}", *restart_details(failed))
        elif job_state.why:
            self.console.say("WARNING", f"{job_state.why}; starting a new round")

    def report_round(self, started: Started) -> None:
        roster, spec, seats = started.roster, self.console.spec, started.roster.seats
        self._rounds += 1
        self._print(when=started.seat == 0)
        if self._rounds == 1:
            self.console.show_first_round(started, self._began)
        facts = {"workers": roster.workers, "nodes": len(seats)}
        called = {"called_at": self._called_at or time.monotonic()} if self._is_spare else {}
        self.console.event("round_started", round=roster.round, attempt=roster.attempt, **facts, **called)
        self._note_spare(is_spare=False)
        names = names_for_users(seats)
        first, last = names[seats[0].node], names[seats[-1].node]
        nodes = f"{len(seats)} nodes, {first} to {last}" if len(seats) > 1 else f"1 node, {first}"
        own = workers_in_words((plan.worker.name, plan.worker.rank) for plan in started.plans)
        output = f"; output of {own.replace('; ', ' and ')} is in {spec.log.directory}"
        role = lead_role(spec, roster)
        lead = roster.master(role)
        leads = lead is seats[started.seat]
        self.console.say("INFO", f"round {roster.round}: {nodes}; this is node {started.seat}{output if leads else ''}")
        if not leads:
            self.console.say("INFO", f"{label(spec.all_roles[role].name, 0)} is on {names[lead.node]}{output}")
        self._print(when=True)
