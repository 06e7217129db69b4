"""The report of a job on several machines: the coordinator's decision, with what this node knows of its last round."""

from flota.cluster.job_state import GATHERING, JobState
from flota.job.report import JobEnding, Report, Verdict, with_failures
from flota.job.roster import Roster
from flota.run.evidence import FailureEvidence, sizes_of


def make_report(evidence: FailureEvidence, job_state: JobState | None, ending: JobEnding) -> Report:
    job = job_state or JobState(GATHERING)
    verdict = Verdict(ending.kind, ending.code, job.attempt, (), ending.signal, ending.reason, ending.stopped_by)
    report = evidence.report(verdict)._replace(restarts=job.restarts)
    if job.spares:  # which have no roster of their own
        sizes = sizes_of(evidence.spec, Roster(job.round, job.attempt, job.seats))
        report = report._replace(sizes=sizes, spares=tuple(row.host for row in job.spares))
    return with_failures(report, ending.failures, ending.ended)
