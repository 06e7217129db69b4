"""This node's membership in a job: passes what the store has to the follower and, on the coordinator's node, to the
coordinator; and what they decide to the store.

It has no sockets and no clock: the simulation runs hundreds of these in one process. Pure.
"""

from flota.cluster.coordinator import Coordinator
from flota.cluster.follower import Follower, NodeAction
from flota.cluster.job_state import ENDED, JobState, decode_state, encode_state
from flota.cluster.lease_times import LEASE
from flota.cluster.node_record import Present, encode_record
from flota.cluster.questions import read_record
from flota.cluster.registration import Registration
from flota.cluster.terms import Terms
from flota.store.etcd_json import BadServerCertificate, KeyValue, NotAStore, Refusal, Unauthenticated, UnexpectedEtcd

LAST_TRY = 1.0  # seconds to remove this node's record from a store that does not answer
PERMISSION_DENIED = 7  # gRPC code
MEMBERS = "the etcd members "  # begins the address of a store that nodes of the job run
DECISION = 100e-6  # seconds between decisions, per record: thousands of joining nodes must not keep it busy


def refusal_in_words(refusal: Refusal, where: str) -> str:
    if where.startswith(MEMBERS) and isinstance(refusal, (NotAStore, BadServerCertificate)):
        advice = "set the same FLOTA_TOKEN on all nodes, or give all of them certificates of the same CA"
        return f"{where} and this node do not trust each other: {refusal.words.rstrip('.')}; {advice}"
    return _refusal_of_other_store(refusal, where)


def _refusal_of_other_store(refusal: Refusal, where: str) -> str:
    if where.startswith("etcd"):
        is_denied = "user name is empty" in refusal.words or refusal.code == PERMISSION_DENIED
        if isinstance(refusal, Unauthenticated) or is_denied:
            advice = "check FLOTA_ETCD_USER, FLOTA_ETCD_PASSWORD and the user's permissions"
            return f"{where} answered `{refusal.words}`: {advice}"
    elif isinstance(refusal, Unauthenticated):
        return f"{where} does not accept this node's token: set the same FLOTA_TOKEN on all nodes"
    if isinstance(refusal, NotAStore):
        return f"{where} does not answer like a store: check the port; if the store uses TLS, use https:// or etcds://"
    if isinstance(refusal, UnexpectedEtcd):
        return f"{where}: {refusal.words}"
    if isinstance(refusal, BadServerCertificate):
        advice = "--tls-ca must name the CA that signed it, and it must be issued for the host in --master"
        return f"cannot verify the certificate of {where}: {refusal.words.rstrip('.')}; {advice}"
    return f"{where} refused a request: {refusal.words}"


class Member:
    """`epoch`: added to this node's clock gives the time of day."""

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
        self.new_states: list[JobState] = []  # in order, until they are reported to the user
        self._last_read: bytes | None = None
        self._published: JobState | None = None
        self._records: dict[str, tuple[int, Present]] = {}
        self._decide_at: float | None = None
        self._not_before = 0.0
        self._joined_with = 0  # the lease; with another one, the record is new
        self._ended_at: float | None = None
        self._disconnected: set[str] = set()  # nodes that are done, but have no record; for the final job state

    def advance(self, now: float) -> list[NodeAction]:
        """What this node must do now."""
        self._read_states()
        self._coordinate(now)
        if self.registration.refusal:
            self.follower.refused(refusal_in_words(self.registration.refusal, self.where))
        actions = self.follower.advance(now, self.silent_since, self.trouble, self.failing_since)
        if self.follower.ending is not None:
            self._ended_at = now if self._ended_at is None else self._ended_at
            if not self._is_needed(now):
                self.registration.leave()
        elif self.follower.record:
            if self.registration.lease not in (0, self._joined_with):
                self._joined_with = self.registration.lease
                self.follower.note_joined(now + self.epoch)
            self.registration.publish_record(encode_record(self.follower.record))
        return actions

    @property
    def trouble(self) -> str:
        """The store's address, and why it does not answer."""
        why = self.registration.trouble.removeprefix(f"{self.where}: ")
        return f"{self.where}: {why}" if why else self.where

    @property
    def silent_since(self) -> float | None:
        """Since when a request to the store is unanswered; None if none is."""
        return self.began if self.registration.answered_at is None else self.registration.silent_since

    @property
    def failing_since(self) -> float | None:
        """Since when the store does not do all that this node requests, or does not answer; None if it does."""
        times = (self.silent_since, self.registration.failing_since)
        return min((time for time in times if time is not None), default=None)

    def is_gone(self, now: float) -> bool:
        """Whether nothing of this node is left in the store, or the store is unreachable."""
        own, ended_at = self.registration, self._ended_at or 0.0
        unreachable = own.refusal is not None or (own.silent_since is not None and now >= ended_at + LAST_TRY)
        return own.gone or (own.leaving and unreachable)

    @property
    def deadline(self) -> float | None:
        times = [self.registration.deadline, self.follower.deadline, self._decide_at]
        if self._ended_at is not None and not self.registration.leaving:
            times.append(self._ended_at + LEASE)
        return min((time for time in times if time is not None), default=None)

    def _is_needed(self, now: float) -> bool:
        """The coordinator stays until all nodes have received the final job state, for one lease at most. Nodes that
        are done may be disconnected, and connect again. New records may belong to the next run."""
        job_state, ended_at = self.follower.job_state, self._ended_at or 0.0
        has_ended = job_state is not None and job_state.ending is not None
        if not has_ended or not self.coordinator or self.silent_since is not None or now >= ended_at + LEASE:
            return False
        others = self.coordinator.gathering.members - {self.follower.name}
        records = self.registration.records or {}
        self._disconnected -= records.keys()
        return bool(self._disconnected) or any(name in others for name in records)

    def _read_states(self) -> None:
        received, self.registration.job_states = self.registration.job_states, []
        for data in received:
            job_state = decode_state(data) if data != self._last_read else None
            self._last_read = data
            of_earlier_run = job_state and job_state.ending and data == self.registration.found
            if job_state and not of_earlier_run:
                self.follower.receive_state(job_state)
                self.new_states += [job_state] if self.follower.job_state is job_state else []

    # On the coordinator's node.

    def _coordinate(self, now: float) -> None:
        own = self.registration
        if not own.is_coordinator or own.records is None:
            self.coordinator = self._published = self._decide_at = None
            return
        if self.coordinator is None:
            self.coordinator = Coordinator(self.terms, self.follower.job_state, now, self.follower.name, self.epoch)
            own.changed = True
        if own.changed:
            own.changed = False
            soon = max(now, self._not_before)
            self._decide_at = soon if self._decide_at is None else min(self._decide_at, soon)
        if self._decide_at is None or now < self._decide_at:
            return
        trusting = now >= own.trusted_from
        job_state = self.coordinator.decide(self._present(own.records), now, trusting=trusting)
        self._not_before = now + len(own.records) * DECISION
        times = [self.coordinator.deadline, None if trusting else own.trusted_from]
        self._decide_at = min((time for time in times if time is not None), default=None)
        # Before the first decision there is nothing to publish: every node joins round 0 without being asked.
        if job_state not in (self._published, self.coordinator.blank):
            self._published = job_state
            self._disconnected = self.coordinator.done - self.coordinator.gone - own.records.keys()
            own.publish_state(encode_state(job_state), final=job_state.phase == ENDED)

    def _present(self, records: dict[str, KeyValue]) -> list[Present]:
        """Decode only what has changed: of thousands of records most are the same as at the last decision."""
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
