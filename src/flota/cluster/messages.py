"""What people are told about the meeting: how to join, who is missing, who was lost or turned away, what comes next."""

from __future__ import annotations

import os
import shlex

from flota.cluster.job_state import GATHERING, JobState
from flota.failures.report_text import culprit_in_words
from flota.failures.roll_call import KIND as ROLL_CALL
from flota.job.causes import is_hang
from flota.job.nodes import NodesSpec
from flota.job.plan import lead_role
from flota.job.roles import TRAINER, label
from flota.job.roster import endpoint
from flota.logs.directory import remove, write_whole
from flota.run.console import Console
from flota.run.start import Started
from flota.stragglers.report import report_changes
from flota.wording import restart_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.member import Member
    from flota.cluster.store_access import StoreAccess

FIRST_WORD, NEXT_WORD = 2.0, 10.0  # seconds without an answer until people are told, and told again
COPY = "Copy the following command to other nodes to run."
LINE = "-" * 80


class ClusterMessages:
    def __init__(self, console: Console, nodes: NodesSpec) -> None:
        self.console = console
        self.nodes = nodes
        self.deadline: float | None = None
        self._heard: JobState | None = None
        self._rounds = 0
        self._token_file = ""
        self._here = ""

    def welcome(self, configuration: tuple[tuple[str, str], ...], notes: tuple[str, ...], point: StoreAccess) -> None:
        self.console.introduce(configuration, notes)
        if point.chosen:
            self._show_command(point)
        self.warn(point)

    def warn(self, point: StoreAccess) -> None:
        self._here = point.words if point.only_here else ""
        if point.lacks_certificate:
            words = "this machine has the master's address, but this node no --tls-cert and --tls-key to serve it with"
            self.console.say("WARNING", words)
        if point.open_to_all:
            self.console.say(
                "WARNING",
                f"anybody who can reach {point.words} can take part in this job: set FLOTA_TOKEN on all nodes",
            )

    def _show_command(self, point: StoreAccess) -> None:
        """On a terminal the token can be copied with the command; a log is no place for it: then it is in a file."""
        scheme = "https://" if self.nodes.tls else ""
        where = scheme + endpoint(point.places[0].host, str(point.places[0].port))
        if self.nodes.secrets.token:
            secret = ""  # the user's own, who knows how to give it to the others
        elif os.isatty(1):
            secret = f"FLOTA_TOKEN={point.token} "
        else:
            self._token_file = f"{self.console.spec.log.directory}/token.{point.places[0].port}"
            write_whole(self._token_file, f"{point.token}\n", mode=0o600)
            secret = f"FLOTA_TOKEN_FILE={shlex.quote(self._token_file)} "
        command = f"{secret}flota --master {where} {shlex.join(self.nodes.words)}"
        self.console.out.write(f"{COPY}\n{LINE}\n{command}\n{LINE}\n".encode(errors="surrogateescape"))

    def close(self) -> None:
        if self._token_file:
            remove(self._token_file)

    def wrong_token(self, address: str) -> None:
        self.console.say("WARNING", f"a request from {address} was refused: its FLOTA_TOKEN is not this job's")

    def tell(self, member: Member, now: float) -> None:
        self._tell_of_silence(member, now)
        heard, member.new_states = member.new_states, []
        for job_state in heard:
            before, self._heard = self._heard, job_state
            self._tell_of(job_state, before, member.follower.name)

    def _tell_of_silence(self, member: Member, now: float) -> None:
        since = member.silent_since
        if since is None or member.follower.ending:
            self.deadline = None
        elif self.deadline is None:
            self.deadline = max(now, since + FIRST_WORD)
        elif now >= self.deadline:
            self.deadline = now + NEXT_WORD
            if member.follower.working:
                self.console.say("WARNING", f"no answer from {member.trouble}; the workers go on")
            else:
                self.console.say("INFO", f"waiting for an answer from {member.trouble}")

    def _tell_of(self, job_state: JobState, before: JobState | None, own: str) -> None:
        for node, refused in job_state.refused.items():
            if node != own and (before is None or node not in before.refused):
                self.console.say("WARNING", f"{refused.host} was turned away: {refused.why}")
        if (
            job_state.phase == GATHERING
            and job_state.missing
            and job_state.missing != (before.missing if before else "")
        ):
            here = f"; {self._here} can be reached from this machine only" if self._here else ""
            self.console.say("INFO", f"waiting for the other nodes: {job_state.missing}{here}")
        hangs = any(is_hang(fault.code, fault.cause) for fault in job_state.failures[:1])
        if job_state.asks(ROLL_CALL) and hangs and not (before and before.failures):
            self._tell_of_hang(job_state)
        if before and job_state.round == before.round:
            report_changes(self.console, before.slow, job_state.slow)
        last_round = before.round if before else 0
        if job_state.round > last_round and job_state.phase == GATHERING:
            self._tell_why(job_state)

    def _tell_of_hang(self, job_state: JobState) -> None:
        what, *where = job_state.failures[0].said or ("no sign of life",)
        self.console.event("hang_found", suspects=[fault.rank for fault in job_state.failures if fault.rank >= 0])
        self.console.say("WARNING", f"the job hangs: {what}")
        self.console.own_log.write_text("WARNING", "\n".join(f"  {line}" for line in where))

    def _tell_why(self, job_state: JobState) -> None:
        if job_state.failures:
            culprit = culprit_in_words(job_state.failures[0], name_host=True)
            restart = restart_in_words(job_state.attempt, self.console.spec.restarts.limit, job_state.delay)
            self.console.say("WARNING", f"{culprit}; {restart}")
        elif job_state.why:
            self.console.say("WARNING", f"{job_state.why}; the nodes meet again")

    def round_begins(self, started: Started) -> None:
        roster = started.roster
        first, last = roster.seats[0].host, roster.seats[-1].host
        self._rounds += 1
        if self._rounds == 1:
            self.console.show_first_round(started)
        self.console.event("round_started", round=roster.round, attempt=roster.attempt, nodes=len(roster.seats))
        count = f"{len(roster.seats)} nodes, {first} to {last}" if len(roster.seats) > 1 else f"1 node, {first}"
        numbers = f"round {roster.round}: {count}; this is node {started.seat}"
        self.console.say("INFO", numbers)
        spec = self.console.spec
        role = lead_role(spec, roster)
        lead = roster.master(role)
        if lead is not roster.seats[started.seat]:
            where = f"{label(spec.all_roles[role].name, 0)} is on {lead.host}"
            self.console.say("INFO", f"{where}; output of {_own_in_words(started)} is in {spec.log.directory}")


def _own_in_words(started: Started) -> str:
    """This node's workers, role by role."""
    ranks: dict[str, list[int]] = {}
    for plan in started.plans:
        ranks.setdefault(plan.worker.name, []).append(plan.worker.rank)
    return " and ".join(
        f"{'rank' if name == TRAINER else name}{'s' * (len(own) > 1)} {_numbers_in_words(own)}"
        for name, own in ranks.items()
    )


def _numbers_in_words(numbers: list[int]) -> str:
    """As a range where they are one; addresses may be listed in any order."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 1 and last - first == len(numbers) - 1:
        return f"{first} to {last}"
    return ", ".join(map(str, numbers))
