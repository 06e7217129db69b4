"""The logs of a running job: those of nodes on this machine are read directly, the others through their nodes."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from math import inf

from flota.control.client import ASKED_AT_ONCE, NO_ANSWER, JobClient, NodeClient
from flota.control.status import ENDED, LogStatus, NodeLogs, Status
from flota.errors import CannotAsk, FlotaError, InteractiveJob, NoWorkersYet
from flota.job.printable import printable
from flota.job.roles import TRAINER, label
from flota.logs.choose_ranks import Choice
from flota.logs.log_parts import LogPart, PartReader, parts_of
from flota.logs.log_spans import LogHistory, Place, job_histories, spans_of
from flota.logs.merge_lines import Speaker
from flota.logs.rank_log import LinePrinter, RankLog
from flota.values import NamedTuple

POLL_INTERVAL = 0.25  # seconds between two looks at logs that do not grow
RETRY_INTERVAL = 5.0  # seconds until a node that did not answer is asked again
READ_AT_ONCE, LEAST_READ = 4 << 20, 16 << 10  # bytes of all logs of a node, and of each
TRIES, PROMPT = 3, 0.2  # questions to a node whose answers take longer than this, in seconds
SKEW = 10.0  # seconds by which the clocks of a job's machines may have changed

News = list[tuple[RankLog, bytes, bool]]  # new bytes; whether others before them are gone


class Polled(NamedTuple):
    round: int
    news: News
    has_ended: bool


class LogsOfNode:
    """One node, and those of its logs that are shown."""

    def __init__(self, client: NodeClient, host: str) -> None:
        self.client = client
        self.host = host
        self.logs: dict[str, RankLog] = {}  # by path
        self.clock_ahead = 0.0  # seconds
        self._quickest = inf
        self._files = PartReader()
        self.round = -1
        self.problem: CannotAsk | None = None  # why its logs could not be read
        self.has_answered = self.has_ended = False
        self.failed_at = 0.0  # when it did not answer; 0: it did

    def ask(self, *, follow: bool) -> NodeLogs:
        """Estimate the clock from the quickest answer: it is off by half of the time that the answer took, at most."""
        for _ in range(TRIES):
            asked = time.time()
            answer = self.client.logs(follow=follow)
            took = time.time() - asked
            if took <= self._quickest:
                self._quickest, self.clock_ahead = took, answer.now - asked - took / 2
            if self._quickest <= PROMPT:
                break
        return answer

    def update(self, answer: NodeLogs, choice: Choice) -> None:
        """Take over the sizes of the chosen logs."""
        for one in answer.logs:
            if one.path not in self.logs and choice.has(speaker_of(answer, one)):
                name = one.path.rpartition("/")[2]
                self.logs[one.path] = RankLog(speaker_of(answer, one), name, self._reader(one), (), one.start)
            if one.path in self.logs:
                self.logs[one.path].parts = tuple(LogPart(*part) for part in one.parts)

    def _reader(self, log: LogStatus) -> Callable[[int, int, int], bytes]:
        if self.client.pid:
            return partial(self._files.read, log.path)
        return lambda inode, offset, limit: self._ask_for_part(log, (inode, offset), limit)

    def _ask_for_part(self, log: LogStatus, place: Place, limit: int) -> bytes:
        """A node that does not answer must not keep the others from being shown: see `problem`."""
        try:
            return b"" if self.problem else self.client.log_part(log.role, log.rank, log.file, place, limit)
        except CannotAsk as error:
            self.problem = error
            return b""

    def add_spans(self, began: float, *, timed: bool) -> None:
        """Divide the logs into spans, with times by the clock of this machine."""
        histories: dict[str, LogHistory] = {}
        if timed:
            try:
                histories = job_histories(self.client.log_times(), began + self.clock_ahead, 0, SKEW, self.clock_ahead)
            except CannotAsk:
                pass  # the job has just begun
        for log in self.logs.values():
            marks = histories.get(log.name, LogHistory()).marks
            log.spans = spans_of(log.parts, log.place, marks, time.time())

    def poll(self, choice: Choice) -> Polled:
        """Look for what is new in the logs."""
        self.problem = None
        try:
            answer = self.ask(follow=True)
        except CannotAsk as error:
            if not self.client.pid or error.why == NO_ANSWER:
                raise
            for path, log in self.logs.items():
                log.parts = parts_of(path)
            return Polled(self.round, self._advance(), has_ended=True)
        self.update(answer, choice)
        news = self._advance()
        if self.problem:
            raise self.problem
        return Polled(answer.round, news, has_ended=answer.state == ENDED)

    def _advance(self) -> News:
        limit = max(LEAST_READ, READ_AT_ONCE // (len(self.logs) or 1))
        news = ((log, *log.advance(limit)) for log in self.logs.values())
        return [one for one in news if one[1]]


def speaker_of(node: NodeLogs, log: LogStatus) -> Speaker:
    return Speaker(log.role, log.rank, printable(node.host), node.seat)


class RunningLogs:
    """The chosen logs of all nodes. `warn` gets sentences for the user."""

    _status: Status  # of the node that has answered last

    def __init__(self, job: JobClient, choice: Choice, warn: Callable[[str], object]) -> None:
        self._job = job
        self._choice = choice
        self._warn = warn
        entry = LogsOfNode(job.entry, job.entry.where)
        self._nodes = {"": entry}  # by endpoint, which is empty in a job of one node
        self._asker = ThreadPoolExecutor(ASKED_AT_ONCE)

    def find(self, *, timed: bool, follow: bool) -> list[RankLog]:
        """The chosen logs. `timed`: with the times of their spans. Raises an error if the job does not have them."""
        status = self._status = self._job.entry.status()
        if not status.job.world_size:
            raise NoWorkersYet(printable(status.job.message) or status.job.state)
        (entry,) = self._nodes.values()
        entry.host = printable(status.node.host)
        own = (place.endpoint for place in status.job.nodes if place.seat == status.node.seat)
        self._nodes = {next(own, ""): entry}
        answers = {entry: entry.ask(follow=follow)}
        missing: list[CannotAsk] = []
        early = self._choice.completed(_speakers(answers)) if self._choice != Choice() else Choice((0,), TRAINER)
        if not early.is_complete(_speakers(answers)):
            missing = self._add_others()
            others = [node for node in self._nodes.values() if node is not entry]
            asked = [(node, self._asker.submit(node.ask, follow=follow)) for node in others]
            answers |= {node: answer for node, one in asked if (answer := _result(one, missing))}
        speakers = _speakers(answers)
        if not speakers and not missing:
            raise InteractiveJob
        self._choice = self._choice.completed(speakers)
        try:
            self._choice.check(speakers)
        except FlotaError:
            if missing:
                raise missing[0] from None
            raise
        if not self._choice.is_complete(speakers):
            for problem in missing:
                self._warn(problem.message)
        for node, answer in answers.items():
            node.update(answer, self._choice)
            node.round, node.has_answered = answer.round, True
            node.add_spans(status.job.began - entry.clock_ahead, timed=timed)
        return [log for node in answers for log in node.logs.values()]

    def check(self) -> None:
        """Raise an error if some of the logs could not be read."""
        for node in self._nodes.values():
            if node.problem:
                raise node.problem

    def _add_others(self) -> list[CannotAsk]:
        """Add the other nodes of the job. Returns why some cannot be asked."""
        problems = []
        for place in self._status.job.nodes:
            if place.seat == self._status.node.seat or (place.endpoint and place.endpoint in self._nodes):
                continue
            try:
                self._nodes[place.endpoint] = LogsOfNode(self._job.node(place), printable(place.host))
            except CannotAsk as error:
                problems.append(error)
        return problems

    def follow(self, printer: LinePrinter) -> None:
        """Show what is added to the logs, until the job has ended."""
        asked: dict[Future[Polled], LogsOfNode] = {}
        while True:
            now = time.monotonic()
            alive = [node for node in self._nodes.values() if not node.has_ended]
            if all(node.failed_at for node in alive):
                break
            for node in alive:
                if node not in asked.values() and now >= node.failed_at + RETRY_INTERVAL * bool(node.failed_at):
                    asked[self._asker.submit(node.poll, self._choice)] = node
            done, _ = wait(asked, POLL_INTERVAL)
            news = [one for future in done for one in self._take(asked.pop(future), future)]
            self._show(news, printer)
            if not news:
                time.sleep(max(0.0, now + POLL_INTERVAL - time.monotonic()))
        printer.show([(log, b"") for node in self._nodes.values() for log in node.logs.values()], last=True)
        printer.flush()
        if len(alive) == len(self._nodes):
            raise CannotAsk(", ".join(node.host for node in alive), "the connection was lost, and the job may go on")

    def _take(self, node: LogsOfNode, future: Future[Polled]) -> News:
        try:
            polled = future.result()
        except CannotAsk as error:
            if not node.failed_at and node.has_answered:
                self._warn(f"{node.host}: {error.why}; continuing without it")
            node.failed_at = time.monotonic()
            node.has_ended = not node.has_answered
            return []
        has_moved = polled.round != node.round
        node.failed_at, node.round, node.has_answered = 0.0, polled.round, True
        if polled.has_ended and not polled.news:
            node.has_ended = True
            node.client.close()
        if node.has_ended or has_moved:
            self._look_for_others(node)
        return polled.news

    def _look_for_others(self, node: LogsOfNode) -> None:
        """In an elastic job, ranks may go on elsewhere when a node has ended or is in another round."""
        if not node.has_ended:
            try:
                self._status = node.client.status()
            except CannotAsk:
                return  # the next poll reports it
        self._add_others()

    def _show(self, news: News, printer: LinePrinter) -> None:
        for log, _, is_gone in news:
            if is_gone:
                self._warn(
                    f"lines of {label(log.speaker.role, log.speaker.rank)} were rotated away before they could be shown"
                )
        if news:
            printer.show([(log, data) for log, data, _ in news], time.time())
            printer.flush()


def _speakers(answers: dict[LogsOfNode, NodeLogs]) -> list[Speaker]:
    return [speaker_of(answer, log) for answer in answers.values() for log in answer.logs]


def _result(asked: Future[NodeLogs], problems: list[CannotAsk]) -> NodeLogs | None:
    try:
        return asked.result()
    except CannotAsk as error:
        problems.append(error)
        return None
