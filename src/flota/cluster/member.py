"""This node's membership in a job: the store's news to the node and, if it has the coordinator, to the coordinator;
and back.

No sockets and no clock of its own: the simulation runs hundreds of these in one process. Pure.
"""

from __future__ import annotations

from flota.cluster.coordinator import Coordinator
from flota.cluster.follower import Follower
from flota.cluster.job_state import ENDED, JobState, decode_state, encode_state
from flota.cluster.node_actions import NodeAction
from flota.cluster.node_record import Present, encode_record
from flota.cluster.questions import read_record
from flota.cluster.registration import Registration
from flota.cluster.terms import Terms
from flota.job.nodes import LEASE
from flota.store.etcd_json import BadServerCertificate, NotAStore, Unauthenticated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.store.etcd_json import KeyValue, Refusal

LAST_TRY = 1.0  # seconds to take this node's record out of a store that does not answer just now
DENIED = 7  # gRPC's code
LOOK = (
    100e-6  # seconds between the coordinator's looks, for each record: thousands joining at once must not keep it busy
)


def refusal_in_words(refusal: Refusal, where: str) -> str:
    if where.startswith("etcd"):
        if isinstance(refusal, Unauthenticated) or "user name is empty" in refusal.words or refusal.code == DENIED:
            return f"{where} says `{refusal.words}`: see FLOTA_ETCD_USER, FLOTA_ETCD_PASSWORD and what the user may do"
    elif isinstance(refusal, Unauthenticated):
        return f"{where} does not know this job's token: set the same FLOTA_TOKEN on all nodes"
    if isinstance(refusal, NotAStore):
        return (
            f"{where} answers, but not as a store: is it another program's port, or https:// (etcds://) that it wants?"
        )
    if isinstance(refusal, BadServerCertificate):
        advice = "--tls-ca names who must have signed it, and it must be for the host in --master"
        return f"the certificate of {where} will not do: {refusal.words.rstrip('.')}; {advice}"
    return f"{where} refuses to be this job's store: {refusal.words}"


class Member:
    """`epoch`: what makes a time of day of this node's own time."""

    def __init__(
        self, follower: Follower, registration: Registration, terms: Terms, where: str, now: float, epoch: float = 0.0
    ) -> None:
        self.follower = follower
        self.epoch = epoch
        self.registration = registration
        self.terms = terms
        self.where = where
        self.coordinator: Coordinator | None = None
        self.began = now
        self.heard: list[JobState] = []  # in order, until people have been told of them
        self._heard: bytes | None = None
        self._proclaimed: JobState | None = None
        self._records: dict[str, tuple[int, Present]] = {}
        self._look_at: float | None = None
        self._next_look = 0.0
        self._stay_until = 0.0

    def advance(self, now: float) -> list[NodeAction]:
        """What this node has to do now."""
        self._hear()
        self._preside(now)
        if self.registration.refusal:
            self.follower.refused(refusal_in_words(self.registration.refusal, self.where))
        actions = self.follower.advance(now, self.silent_since, self.trouble)
        if self.follower.ending is not None:
            self._stay_until = self._stay_until or now + LEASE
            if not self._is_needed(now):
                self.registration.leave()
        elif self.follower.record:
            self.registration.publish(encode_record(self.follower.record))
        return actions

    @property
    def trouble(self) -> str:
        """Where the store should answer, and why it does not."""
        why = self.registration.reachability.trouble.removeprefix(f"{self.where}: ")
        return f"{self.where}: {why}" if why else self.where

    @property
    def silent_since(self) -> float | None:
        """Since when the store owes an answer; None if it does not."""
        return (
            self.began
            if self.registration.reachability.answered_at is None
            else self.registration.reachability.silent_since
        )

    def is_gone(self, now: float) -> bool:
        """Whether nothing of this node is left in the store, or the store is not there to ask."""
        silent = self.registration.reachability.silent_since is not None and now >= self._stay_until - LEASE + LAST_TRY
        return self.registration.gone or (
            self.registration.leaving and (silent or self.registration.refusal is not None)
        )

    @property
    def deadline(self) -> float | None:
        times = [self.registration.deadline, self.follower.deadline, self._look_at]
        if self._stay_until and not self.registration.leaving:
            times.append(self._stay_until)
        return min((time for time in times if time is not None), default=None)

    def _is_needed(self, now: float) -> bool:
        """The coordinator stays until everybody has heard how the job ended. New records may be the next run's
        already.
        """
        has_ended = self.follower.job_state is not None and self.follower.job_state.ending is not None
        if (
            not has_ended
            or not self.registration.is_coordinator
            or self.silent_since is not None
            or now >= self._stay_until
        ):
            return False
        members = self.coordinator.gathering.members if self.coordinator else set()
        return any(name in members and name != self.follower.name for name in self.registration.records or {})

    def _hear(self) -> None:
        job_states, self.registration.job_states = self.registration.job_states, []
        for data in job_states:
            job_state = decode_state(data) if data != self._heard else None
            self._heard = data
            over_before_we_came = job_state and job_state.ending and data == self.registration.found
            if job_state and not over_before_we_came:
                self.follower.hear(job_state)
                self.heard += [job_state] if self.follower.job_state is job_state else []

    # With the coordinator.

    def _preside(self, now: float) -> None:
        if not self.registration.is_coordinator or self.registration.records is None:
            self.coordinator = self._proclaimed = self._look_at = None
            return
        if self.coordinator is None:
            self.coordinator = Coordinator(self.terms, self.follower.job_state, now, self.follower.name, self.epoch)
            self.registration.news = True
        if self.registration.news:
            self.registration.news = False
            self._look_at = max(now, self._next_look) if self._look_at is None else min(self._look_at, self._next_look)
        if self._look_at is None or now < self._look_at:
            return
        trusting = now >= self.registration.reachability.trusted_from
        job_state = self.coordinator.decide(self._present(self.registration.records), now, trusting=trusting)
        self._next_look = now + len(self.registration.records) * LOOK
        times = [self.coordinator.deadline, None if trusting else self.registration.reachability.trusted_from]
        self._look_at = min((time for time in times if time is not None), default=None)
        if job_state != self._proclaimed and not self._is_blank(job_state):
            self._proclaimed = job_state
            self.registration.proclaim(encode_state(job_state), last=job_state.phase == ENDED)

    def _is_blank(self, job_state: JobState) -> bool:
        """Before anything has been decided there is nothing to tell: every node offers itself for round 0 unasked."""
        return job_state == JobState(job_state.phase) and job_state.phase != ENDED

    def _present(self, records: dict[str, KeyValue]) -> list[Present]:
        """Decoded once each: of thousands of records most are the same as at the last look."""
        known: dict[str, tuple[int, Present]] = {}
        for name, entry in records.items():
            revision = int(entry.mod_revision)
            seen = self._records.get(name)
            if seen is None or seen[0] != revision:
                present = read_record(name, int(entry.create_revision), entry.value, revision)
                if present is None:
                    continue
                seen = revision, present
            known[name] = seen
        self._records = known
        return [present for _, present in known.values()]
