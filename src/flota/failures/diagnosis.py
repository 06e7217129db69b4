"""Why a worker ended: one table from what is known of its end to a cause, in words and with a hint.

Without `re`: it is read when something has failed, and a failure may be the first of many restarts. Pure.
"""

from __future__ import annotations

from flota.failures import patterns
from flota.humanize import ending_in_words
from flota.job import causes
from flota.job.causes import signal_of
from flota.job.report import FailedWorker
from flota.values import NamedTuple

MEMORY_ERRORS = ("MemoryError", "ArrayMemoryError")
SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")
LOCAL_RANK_TEXTS = ("unrecognized arguments: --local-rank", "unrecognized arguments: --local_rank")
INTERPRETERS_WORD = ": can't open file "  # what python itself says, with exit code 2
ABSL_REFUSES = "FATAL Flags parsing error:"
USAGE_CODE = 2


class Evidence(NamedTuple):
    """What is known of a worker's end, and what it said last. `code` is its exit code, or minus the signal's number.

    `said`: its last words, for people. `raised`: the line of its exception, `root`: all of the first in its chain;
    `tail`: how the message of what was raised goes on, or, if it did not end by an exception, the end of what it said.
    `memory`: how the kernel is known to have ended it for memory; `counted`: whether such kills are known of at all.
    """

    code: int
    asked_to_stop: bool = False
    said: tuple[str, ...] = ()
    raised: str = ""
    root: str = ""
    tail: tuple[str, ...] = ()
    stranger: bool = False  # it was raised by a client of some other service, not in talking to a process of the job
    memory: str = ""
    counted: bool = False

    @property
    def last(self) -> str:
        return self.tail[-1] if self.tail else ""

    @property
    def text(self) -> str:
        return "\n".join((self.root, self.raised, *self.tail))

    @property
    def died(self) -> bool:
        """By a signal that flota did not send."""
        return signal_of(self.code) != 0 and not self.asked_to_stop


# Texts that tell the cause wherever they are in what a worker said last.
TEXTS = (
    (causes.DEVICE_OUT_OF_MEMORY, "out of memory on the device", patterns.DEVICE_MEMORY),
    (causes.SHARED_MEMORY_FULL, "shared memory is full", patterns.SHARED_MEMORY),
    (causes.DISK_FULL, "the disk is full", patterns.DISK),
    (causes.PORT_IN_USE, "the port is already in use", patterns.PORT),
    (causes.TOO_MANY_FILES, "too many open files", patterns.FILES),
    (causes.DEVICE_FAILED, "error of the device", patterns.DEVICE_ERROR),
)
# Signals that say it all.
SIGNALS = {
    causes.SIGKILL: (causes.KILLED, "killed from outside"),
    causes.SIGSEGV: (causes.SEGMENTATION_FAULT, "segmentation fault"),
    causes.SIGTERM: (causes.TERMINATED, "terminated from outside"),
}
BUS_ERROR = "bus error"


def diagnosed(failed: FailedWorker, evidence: Evidence) -> FailedWorker:
    """With the most telling cause that the evidence allows, and with what it said last."""
    cause, words = next(found for check in CHECKS if (found := check(evidence)))
    # Of a script that python cannot read it prints no traceback.
    raised = evidence.raised or (evidence.last if cause == causes.SYNTAX_ERROR else "")
    return failed._replace(
        cause=cause,
        ending=ending_in_words(failed.code, words),
        said=evidence.said,
        is_secondary=is_secondary(evidence),
        exception=exception_name(raised) if evidence.code else "",
        hint=causes.HINTS[causes.SHARED_MEMORY_FULL if words == BUS_ERROR else cause],
    )


def is_secondary(evidence: Evidence) -> bool:
    """Whether another's death explains this end: a connection that was lost, a collective that was given up."""
    if evidence.memory or (evidence.died and signal_of(evidence.code) in (causes.SIGKILL, causes.SIGSEGV)):
        return False
    if evidence.root:
        return names_lost_peer(evidence.root) and not evidence.stranger and _by_text(evidence.root) is None
    return _says_that_it_lost_a_peer(evidence) or patterns.SIGTERM_BLOCK in "\n".join(evidence.tail)


def exception_name(line: str) -> str:
    """`torch.OutOfMemoryError` of `torch.OutOfMemoryError: CUDA out of …`; empty if the line is not an exception's."""
    name = line.partition("\n")[0].partition(":")[0].strip()
    return name if all(part.isidentifier() for part in name.replace(".<locals>.", ".").split(".")) else ""


def names_lost_peer(raised: str) -> bool:
    """Whether an exception, by its words, says that another process was lost: by its type, or in a framework's words.
    Whatever else can be in the message of any exception."""
    name = exception_name(raised).rpartition(".")[2]
    if name in patterns.LOST_PEER_TYPES:
        return True
    is_framework = raised.partition(":")[2].strip().startswith(patterns.FRAMEWORK_WORD)
    return (name in patterns.FRAMEWORK_TYPES or is_framework) and _has(raised, patterns.LOST_PEER)


# Each check: the cause, and what completes the sentence; None where it is not that.


def _before_all(evidence: Evidence) -> tuple[str, str] | None:
    """What the worker says does not matter."""
    if evidence.code == 0 and not evidence.asked_to_stop:
        return causes.LEFT_EARLY, "while others still worked"
    if evidence.memory:
        return causes.OUT_OF_MEMORY, f"killed for memory: {evidence.memory}"
    found = SIGNALS.get(signal_of(evidence.code)) if evidence.died else None
    if found and found[0] == causes.KILLED and not evidence.counted:
        return causes.KILLED, "killed from outside, or by the kernel for memory"
    return found


def _cannot_import(evidence: Evidence) -> tuple[str, str] | None:
    name = exception_name(evidence.raised)
    message = evidence.raised.partition(":")[2].strip()
    if name == "ModuleNotFoundError":
        return causes.MISSING_MODULE, message[:1].lower() + message[1:] or "missing module"
    if name == "ImportError" or (name and _has(evidence.raised, patterns.SHARED_OBJECT)):
        return causes.FAILED_IMPORT, f"failed import: {message}" if message else "failed import"
    if evidence.code == 1 and not name and ": No module named " in evidence.last:  # python -m
        return causes.MISSING_MODULE, f"no module named {evidence.last.partition(': No module named ')[2]}"
    return None


def _cannot_be_read(evidence: Evidence) -> tuple[str, str] | None:
    line = evidence.raised or evidence.last
    return (causes.SYNTAX_ERROR, line) if evidence.code == 1 and exception_name(line) in SYNTAX_ERRORS else None


def _refuses_its_arguments(evidence: Evidence) -> tuple[str, str] | None:
    said = "\n".join(evidence.tail)
    if evidence.code == 1 and ABSL_REFUSES in said and not evidence.raised:
        return causes.USAGE, said.partition(ABSL_REFUSES)[2].strip().partition("\n")[0] or "usage"
    if evidence.code != USAGE_CODE or evidence.raised:
        return None
    if _has(said, LOCAL_RANK_TEXTS):
        return causes.LOCAL_RANK, "the script does not know --local-rank"
    if INTERPRETERS_WORD in evidence.last:
        return causes.BAD_PATH, f"can't open {evidence.last.partition(INTERPRETERS_WORD)[2]}"
    refusal = _refusal(evidence.tail) if "usage: " in said.lower() else ""
    return (causes.USAGE, refusal) if refusal else None


def _refusal(lines: tuple[str, ...]) -> str:
    """In the words of argparse, click, fire, or typer, which draws a box around them."""
    for number, line in enumerate(lines):
        if line.lower().startswith("error: ") or ": error: " in line:
            return line[line.lower().index("error: ") + len("error: ") :] or "usage"
        if line.strip("╭─╮ ") == "Error":
            return "".join(lines[number + 1 : number + 2]).strip("│ ")
    return ""


def _says_it(evidence: Evidence) -> tuple[str, str] | None:
    name = exception_name(evidence.raised)
    if found := _by_text(evidence.text):
        return found
    if name.rpartition(".")[2] in MEMORY_ERRORS or _has(evidence.text, patterns.MEMORY):
        return causes.OUT_OF_MEMORY, "the machine has no memory left to give"
    if names_lost_peer(evidence.root) if evidence.raised else _says_that_it_lost_a_peer(evidence):
        return causes.LOST_CONNECTION, "lost its connection to another process"
    return (causes.EXCEPTION, name) if name else None


def _by_its_code(evidence: Evidence) -> tuple[str, str]:
    """No words: what the signal is called says what is known."""
    signal = signal_of(evidence.code)
    if signal == causes.SIGABRT:
        return causes.ABORTED, ""
    return (causes.SIGNALLED, BUS_ERROR * (signal == causes.SIGBUS)) if signal else (causes.EXITED, "")


CHECKS = (_before_all, _cannot_import, _cannot_be_read, _refuses_its_arguments, _says_it, _by_its_code)


def _by_text(text: str) -> tuple[str, str] | None:
    return next(((cause, words) for cause, words, texts in TEXTS if _has(text, texts)), None)


def _says_that_it_lost_a_peer(evidence: Evidence) -> bool:
    """A program that exits on its own may have printed anything before; native code that gives up does not go on."""
    died = signal_of(evidence.code) != 0 or evidence.asked_to_stop
    return _has("\n".join(evidence.tail) if died else evidence.last, patterns.LOST_PEER)


def _has(text: str, texts: tuple[str, ...]) -> bool:
    text = text.lower()
    return any(one in text for one in texts)
