"""Why a worker ended: one table from what is known of its end to a cause, in words and with a hint.

Without `re`: it is read when something has failed, and a failure may be the first of many restarts. Pure.
"""

from __future__ import annotations

from flota.failures.patterns import (
    DEVICE_ERROR,
    DEVICE_MEMORY,
    DISK,
    FILES,
    FRAMEWORK_TYPES,
    FRAMEWORK_WORD,
    LOST_PEER,
    LOST_PEER_TYPES,
    MEMORY,
    PORT,
    SHARED_MEMORY,
    SHARED_OBJECT,
    SIGTERM_BLOCK,
)
from flota.job.causes import (
    ABORTED,
    BAD_PATH,
    DEVICE_FAILED,
    DEVICE_OUT_OF_MEMORY,
    DISK_FULL,
    EXCEPTION,
    EXITED,
    FAILED_IMPORT,
    KILLED,
    LEFT_EARLY,
    LOCAL_RANK,
    LOST_CONNECTION,
    MISSING_MODULE,
    NOT_STARTED,
    OUT_OF_MEMORY,
    PORT_IN_USE,
    SEGMENTATION_FAULT,
    SHARED_MEMORY_FULL,
    SIGABRT,
    SIGBUS,
    SIGKILL,
    SIGNALLED,
    SIGSEGV,
    SIGTERM,
    SYNTAX_ERROR,
    TERMINATED,
    TOO_MANY_FILES,
    USAGE,
    signal_of,
)
from flota.values import NamedTuple

MEMORY_ERRORS = ("MemoryError", "ArrayMemoryError")
SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")
LOCAL_RANK_TEXTS = ("unrecognized arguments: --local-rank", "unrecognized arguments: --local_rank")
INTERPRETERS_WORD = ": can't open file "  # what python itself says, with exit code 2
ABSL_REFUSES = "FATAL Flags parsing error:"
USAGE_CODE = 2


class Evidence(NamedTuple):
    """What is known of a worker's end. `code` is its exit code, or minus the signal's number.

    `raised`: the line of its exception, `root`: all of the first in its chain; `tail`: how the message of what was
    raised goes on, or, if it did not end by an exception, the end of what it said.
    `memory`: how the kernel is known to have ended it for memory; `counted`: whether such kills are known of at all.
    """

    code: int
    asked_to_stop: bool = False
    raised: str = ""
    root: str = ""
    tail: tuple[str, ...] = ()
    stranger: bool = False  # it was raised by a client of some other service, not in talking to a process of the job
    memory: str = ""
    counted: bool = False
    unstarted: bool = False  # its program could not be run at all

    @property
    def last(self) -> str:
        return self.tail[-1] if self.tail else ""

    @property
    def said(self) -> str:
        return "\n".join((self.root, self.raised, *self.tail))


class Diagnosis(NamedTuple):
    """`words` complete the sentence `exit code 1 (…)`; `exception` is the name of its type, as it was printed."""

    cause: str
    words: str = ""
    hint: str = ""
    exception: str = ""


HINTS = {
    OUT_OF_MEMORY: "ask for more memory, or use less: smaller batches, fewer data loader workers, fewer workers a node",
    DEVICE_OUT_OF_MEMORY: "use smaller batches, or look with the driver's own tool whether another process has memory",
    SHARED_MEMORY_FULL: "give /dev/shm more room, as with `docker run --shm-size 8g`, or use fewer data loader workers",
    DISK_FULL: "run `df -h` there to see which disk is full",
    TOO_MANY_FILES: "run `ulimit -n 65536` before flota",
    SEGMENTATION_FAULT: "the fault is in native code; the Python line that called it is above, if any",
    KILLED: "somebody sent SIGKILL: a person, a scheduler, or a container's limit",
    TERMINATED: "somebody sent SIGTERM to the worker itself: a scheduler signals flota, and flota the workers",
    MISSING_MODULE: "install it for the workers' interpreter, or name another one with --python PATH",
    FAILED_IMPORT: "the package is there but does not load: its version, or a library that it needs",
    BAD_PATH: "run `ls` on that machine: every node needs the script under the same path",
    SYNTAX_ERROR: "the workers' interpreter cannot read the script: --python PATH names another one",
    USAGE: "the script refuses its arguments; flags of flota go before the script",
    LOCAL_RANK: "let the script take both `--local-rank` and `--local_rank`, or read LOCAL_RANK from the environment "
    "and add --use-env",
    PORT_IN_USE: "use the ports that workers are given (MASTER_PORT, FLOTA_ENDPOINT); run `ss -ltnp` to see who has it",
    LOST_CONNECTION: "look at the network, and at what the other ranks were doing",
    LEFT_EARLY: "all ranks have to do the same number of steps: look at how the data is shared out",
    NOT_STARTED: "run `flota --dry-run …` to see the command",
}
WORDS = {
    DEVICE_OUT_OF_MEMORY: "out of memory on the device",
    SHARED_MEMORY_FULL: "shared memory is full",
    DISK_FULL: "the disk is full",
    TOO_MANY_FILES: "too many open files",
    PORT_IN_USE: "the port is already in use",
    DEVICE_FAILED: "error of the device",
    LOST_CONNECTION: "lost its connection to another process",
}
# Texts that tell the cause wherever they are in what a worker said last.
TEXTS = (
    (DEVICE_OUT_OF_MEMORY, DEVICE_MEMORY),
    (SHARED_MEMORY_FULL, SHARED_MEMORY),
    (DISK_FULL, DISK),
    (PORT_IN_USE, PORT),
    (TOO_MANY_FILES, FILES),
    (DEVICE_FAILED, DEVICE_ERROR),
)


def diagnose(evidence: Evidence) -> Diagnosis:
    """The most telling cause that the evidence allows."""
    return next(found for check in CHECKS if (found := check(evidence)))


def is_secondary(evidence: Evidence) -> bool:
    """Whether another's death explains this end: a connection that was lost, a collective that was given up."""
    if evidence.memory or (signal_of(evidence.code) in (SIGKILL, SIGSEGV) and not evidence.asked_to_stop):
        return False
    if evidence.root:
        return names_lost_peer(evidence.root) and not evidence.stranger and _by_text(evidence.root) is None
    return _says_that_it_lost_a_peer(evidence) or SIGTERM_BLOCK in "\n".join(evidence.tail)


def exception_name(line: str) -> str:
    """`torch.OutOfMemoryError` of `torch.OutOfMemoryError: CUDA out of …`; empty if the line is no exception's."""
    name = line.partition("\n")[0].partition(":")[0].strip()
    return name if all(part.isidentifier() for part in name.replace(".<locals>.", ".").split(".")) else ""


def names_lost_peer(raised: str) -> bool:
    """Whether an exception, by its words, says that another process was lost: by its type, or in a framework's words.
    Whatever else can be in the message of any exception."""
    name = exception_name(raised).rpartition(".")[2]
    if name in LOST_PEER_TYPES:
        return True
    message = raised.partition(":")[2].strip()
    return (name in FRAMEWORK_TYPES or message.startswith(FRAMEWORK_WORD)) and _has(raised, LOST_PEER)


def _not_started(evidence: Evidence) -> Diagnosis | None:
    return _named(NOT_STARTED, "") if evidence.unstarted else None


def _left_early(evidence: Evidence) -> Diagnosis | None:
    return (
        _named(LEFT_EARLY, "while others still worked") if evidence.code == 0 and not evidence.asked_to_stop else None
    )


def _killed_for_memory(evidence: Evidence) -> Diagnosis | None:
    if not evidence.memory:
        return None
    return _named(OUT_OF_MEMORY, f"killed for memory: {evidence.memory}", exception_name(evidence.raised))


def _ended_by_signal(evidence: Evidence) -> Diagnosis | None:
    """Those signals that say it all; a worker that was asked to stop got one from us."""
    signal = 0 if evidence.asked_to_stop else signal_of(evidence.code)
    if signal == SIGKILL and not evidence.counted:
        return _named(KILLED, "killed from outside, or by the kernel for memory")
    row = {
        SIGKILL: (KILLED, "killed from outside"),
        SIGSEGV: (SEGMENTATION_FAULT, "segmentation fault"),
        SIGTERM: (TERMINATED, "terminated from outside"),
    }.get(signal)
    return _named(*row) if row else None


def _cannot_import(evidence: Evidence) -> Diagnosis | None:
    name = exception_name(evidence.raised)
    message = evidence.raised.partition(":")[2].strip()
    if name == "ModuleNotFoundError":
        return _named(MISSING_MODULE, message[:1].lower() + message[1:] or "missing module", name)
    if name == "ImportError" or (name and _has(evidence.raised, SHARED_OBJECT)):
        return _named(FAILED_IMPORT, f"failed import: {message}" if message else "failed import", name)
    if evidence.code == 1 and not name and ": No module named " in evidence.last:  # python -m
        return _named(MISSING_MODULE, f"no module named {evidence.last.partition(': No module named ')[2]}")
    return None


def _cannot_be_read(evidence: Evidence) -> Diagnosis | None:
    """Of the script itself python prints no traceback."""
    line = evidence.raised or evidence.last
    name = exception_name(line)
    return _named(SYNTAX_ERROR, line, name) if name in SYNTAX_ERRORS and evidence.code == 1 else None


def _refuses_its_arguments(evidence: Evidence) -> Diagnosis | None:
    said = "\n".join(evidence.tail)
    if evidence.code == 1 and ABSL_REFUSES in said and not evidence.raised:
        return _named(USAGE, said.partition(ABSL_REFUSES)[2].strip().partition("\n")[0] or "usage")
    if evidence.code != USAGE_CODE or evidence.raised:
        return None
    if _has(said, LOCAL_RANK_TEXTS):
        return _named(LOCAL_RANK, "the script does not know --local-rank")
    if INTERPRETERS_WORD in evidence.last:
        return _named(BAD_PATH, f"can't open {evidence.last.partition(INTERPRETERS_WORD)[2]}")
    if "usage: " in said and ": error: " in said:
        return _named(USAGE, evidence.last.partition(": error: ")[2] or "usage")
    refusal = _refusal(evidence.tail) if "usage: " in said.lower() else ""
    return _named(USAGE, refusal) if refusal else None


def _refusal(lines: tuple[str, ...]) -> str:
    """In the words of click, fire, or typer, which draws a box around them."""
    for number, line in enumerate(lines):
        if line.lower().startswith("error: "):
            return line[len("error: ") :]
        if line.strip("╭─╮ ") == "Error":
            return "".join(lines[number + 1 : number + 2]).strip("│ ")
    return ""


def _says_it(evidence: Evidence) -> Diagnosis | None:
    return _by_text(evidence.said, exception_name(evidence.raised))


def _has_no_memory(evidence: Evidence) -> Diagnosis | None:
    name = exception_name(evidence.raised)
    if name.rpartition(".")[2] in MEMORY_ERRORS or _has(evidence.said, MEMORY):
        return _named(OUT_OF_MEMORY, "the machine has no memory left to give", name)
    return None


def _lost_a_connection(evidence: Evidence) -> Diagnosis | None:
    if not (names_lost_peer(evidence.root) if evidence.raised else _says_that_it_lost_a_peer(evidence)):
        return None
    return _named(LOST_CONNECTION, WORDS[LOST_CONNECTION], exception_name(evidence.raised))


def _raised(evidence: Evidence) -> Diagnosis | None:
    name = exception_name(evidence.raised)
    return Diagnosis(EXCEPTION, name, "", name) if name else None


def _ended_by_another_signal(evidence: Evidence) -> Diagnosis | None:
    """No words: what the signal is called says what is known."""
    signal = signal_of(evidence.code)
    if signal == SIGBUS:
        return Diagnosis(SIGNALLED, "bus error", HINTS[SHARED_MEMORY_FULL])
    return Diagnosis(ABORTED if signal == SIGABRT else SIGNALLED) if signal else None


def _exited(_evidence: Evidence) -> Diagnosis:
    return Diagnosis(EXITED)


CHECKS = (
    _not_started,
    _left_early,
    _killed_for_memory,
    _ended_by_signal,
    _cannot_import,
    _cannot_be_read,
    _refuses_its_arguments,
    _says_it,
    _has_no_memory,
    _lost_a_connection,
    _raised,
    _ended_by_another_signal,
    _exited,
)


def _by_text(said: str, exception: str = "") -> Diagnosis | None:
    return next((_named(cause, WORDS[cause], exception) for cause, texts in TEXTS if _has(said, texts)), None)


def _says_that_it_lost_a_peer(evidence: Evidence) -> bool:
    """A program that ends by itself may have told of many a thing before; native code that gives up does not go on."""
    died = signal_of(evidence.code) != 0 or evidence.asked_to_stop
    return _has("\n".join(evidence.tail) if died else evidence.last, LOST_PEER)


def _has(said: str, texts: tuple[str, ...]) -> bool:
    said = said.lower()
    return any(text in said for text in texts)


def _named(cause: str, words: str, exception: str = "") -> Diagnosis:
    return Diagnosis(cause, words, HINTS.get(cause, ""), exception)
