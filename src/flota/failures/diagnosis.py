"""Diagnoses why a worker failed: finds a cause, a description and a hint from its exit code and output.

Does not import `re`, which would delay the first restart. Pure.
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
CANNOT_OPEN_FILE = ": can't open file "  # printed by python itself, with exit code 2
# Printed by python -m, with exit code 1.
NO_MODULE, NO_SPECIFICATION = ": No module named ", ": Error while finding module specification for "
NEEDS_TERMINAL = ("bdb.BdbQuit", "EOFError: EOF when reading a line")  # of breakpoint() and of input()
ABSL_USAGE_ERROR = "FATAL Flags parsing error:"
USAGE_CODE = 2


class Evidence(NamedTuple):
    """How a worker exited, and its last output. `code`: its exit code, or minus the signal's number.

    `said`: the output to show. `raised`: the first line of its exception; `root`: the whole first exception of its
    chain; `tail`: the rest of the exception's message, or without an exception the last output. `memory`: the evidence
    for the OOM killer; `counted`: whether such evidence can be seen on this machine.
    """

    code: int
    asked_to_stop: bool = False
    said: tuple[str, ...] = ()
    raised: str = ""
    root: str = ""
    tail: tuple[str, ...] = ()
    other_service: bool = False  # raised by a client of a service outside the job
    misplaced: tuple[str, ...] = ()  # flags after the script that flota has as well
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
        """Whether a signal killed it that flota did not send."""
        return signal_of(self.code) != 0 and not self.asked_to_stop


# Texts that identify the cause anywhere in the last output.
CAUSES_BY_TEXT = (
    (causes.DEVICE_OUT_OF_MEMORY, "out of memory on the device", patterns.DEVICE_MEMORY),
    (causes.SHARED_MEMORY_FULL, "shared memory is full", patterns.SHARED_MEMORY),
    (causes.DISK_FULL, "the disk is full", patterns.DISK),
    (causes.PORT_IN_USE, "the port is already in use", patterns.PORT),
    (causes.TOO_MANY_FILES, "too many open files", patterns.FILES),
    (causes.DEVICE_FAILED, "device error", patterns.DEVICE_ERROR),
)
# Signals that identify the cause.
CAUSES_BY_SIGNAL = {
    causes.SIGKILL: (causes.KILLED, "killed by another process"),
    causes.SIGSEGV: (causes.SEGMENTATION_FAULT, "segmentation fault"),
    causes.SIGTERM: (causes.TERMINATED, "terminated by another process"),
}
BUS_ERROR = "bus error"
FULL_LOG_DISK = "the disk of the log directory is full"
UNCAUGHT, UNFLUSHED = 1, 120  # exit codes of Python: an uncaught exception, output that could not be written at exit


def diagnosed(failed: FailedWorker, evidence: Evidence) -> FailedWorker:
    """Add the most specific cause that the evidence supports, and the last output."""
    cause, words = next(found for check in CHECKS if (found := check(evidence)))
    # python prints no traceback for a script with a syntax error.
    raised = evidence.raised or (evidence.last if cause == causes.SYNTAX_ERROR else "")
    return failed._replace(
        cause=cause,
        ending=ending_in_words(failed.code, words),
        said=evidence.said,
        is_secondary=is_secondary(evidence),
        exception=exception_name(raised) if evidence.code else "",
        hint=_hint(evidence, cause, words),
    )


def _hint(evidence: Evidence, cause: str, words: str) -> str:
    """The hint for a cause, or a more specific one."""
    refused = words if cause == causes.USAGE else evidence.raised if cause == causes.EXCEPTION else ""
    named = {word.strip("'`\"[](),.") for word in refused.replace("=", " ").split()}
    flags = [flag for flag in evidence.misplaced if flag in named or (cause == causes.USAGE and flag[2:] in named)]
    if flags:
        which = f"flags {', '.join(flags)}" if len(flags) > 1 else f"a flag {flags[0]}"
        return f"flota has {which}: write flota's flags before the script"
    if cause == causes.EXCEPTION and evidence.raised.startswith(NEEDS_TERMINAL):
        return "workers have no terminal: run a single worker with --interactive"
    if cause == causes.EXCEPTION and evidence.raised.startswith(patterns.JAX_FOUND_NO_RANKS):
        return "call flota.init_parallel_env() instead of jax.distributed.initialize(), or run flota --framework jax"
    if cause == causes.MISSING_MODULE and words.endswith(".py'"):
        return "leave out --module to run a file, or give the name of a module, without .py"
    return causes.HINTS[causes.SHARED_MEMORY_FULL if words == BUS_ERROR else cause]


def with_full_log_disk(failed: FailedWorker) -> FailedWorker:
    """Explain an exit without a known cause when the disk of the log directory is full. A Python program fails there
    when it prints, and its traceback is lost."""
    if failed.cause != causes.EXITED or not failed.code:
        return failed
    if failed.code not in (UNCAUGHT, UNFLUSHED):
        return failed._replace(hint=f"{FULL_LOG_DISK}, so its last output may be missing")
    ending = ending_in_words(failed.code, FULL_LOG_DISK)
    return failed._replace(cause=causes.DISK_FULL, ending=ending, hint=causes.HINTS[causes.DISK_FULL])


def is_secondary(evidence: Evidence) -> bool:
    """Whether another worker's failure explains this one: a lost connection, an aborted collective."""
    if evidence.memory or (evidence.died and signal_of(evidence.code) in (causes.SIGKILL, causes.SIGSEGV)):
        return False
    if evidence.root:
        return names_lost_peer(evidence.root) and not evidence.other_service and _by_text(evidence.root) is None
    return _reports_lost_peer(evidence) or patterns.SIGTERM_BLOCK in "\n".join(evidence.tail)


def exception_name(line: str) -> str:
    """`torch.OutOfMemoryError` from `torch.OutOfMemoryError: CUDA out of …`; empty if the line names no exception."""
    name = line.partition("\n")[0].partition(":")[0].strip()
    return name if all(part.isidentifier() for part in name.replace(".<locals>.", ".").split(".")) else ""


def names_lost_peer(raised: str) -> bool:
    """Whether an exception reports a lost process, by its type or by a framework's message. Messages of other
    exceptions are not searched: they can contain anything."""
    name = exception_name(raised).rpartition(".")[2]
    if name in patterns.LOST_PEER_TYPES:
        return True
    is_framework = raised.partition(":")[2].strip().startswith(patterns.FRAMEWORK_WORD)
    return (name in patterns.FRAMEWORK_TYPES or is_framework) and _has(raised, patterns.LOST_PEER)


# Each check returns a cause and its description, or None.


def _by_exit(evidence: Evidence) -> tuple[str, str] | None:
    """Causes that do not depend on the output."""
    if evidence.code == 0 and not evidence.asked_to_stop:
        return causes.LEFT_EARLY, "while others were still running"
    if evidence.memory:
        return causes.OUT_OF_MEMORY, f"killed by the OOM killer: {evidence.memory}"
    found = CAUSES_BY_SIGNAL.get(signal_of(evidence.code)) if evidence.died else None
    if found and found[0] == causes.KILLED and not evidence.counted:
        return causes.KILLED, "killed by another process or the OOM killer"
    return found


def _by_import_error(evidence: Evidence) -> tuple[str, str] | None:
    name = exception_name(evidence.raised)
    message = evidence.raised.partition(":")[2].strip()
    if name == "ModuleNotFoundError":
        return causes.MISSING_MODULE, message[:1].lower() + message[1:] or "missing module"
    if name == "ImportError" or (name and _has(evidence.raised, patterns.SHARED_OBJECT)):
        return causes.FAILED_IMPORT, f"failed import: {message}" if message else "failed import"
    if evidence.code != 1 or name:
        return None
    if NO_SPECIFICATION in evidence.last:
        module = evidence.last.partition(NO_SPECIFICATION)[2].partition(" (")[0]
    else:
        module = evidence.last.partition(NO_MODULE)[2]
    return (causes.MISSING_MODULE, f"no module named {module}") if module else None


def _by_syntax_error(evidence: Evidence) -> tuple[str, str] | None:
    line = evidence.raised or evidence.last
    return (causes.SYNTAX_ERROR, line) if evidence.code == 1 and exception_name(line) in SYNTAX_ERRORS else None


def _by_usage_error(evidence: Evidence) -> tuple[str, str] | None:
    said = "\n".join(evidence.tail)
    if evidence.code == 1 and ABSL_USAGE_ERROR in said and not evidence.raised:
        return causes.USAGE, said.partition(ABSL_USAGE_ERROR)[2].strip().partition("\n")[0] or "usage"
    if evidence.code != USAGE_CODE or evidence.raised:
        return None
    if _has(said, LOCAL_RANK_TEXTS):
        return causes.LOCAL_RANK, "the script does not accept --local-rank"
    if CANNOT_OPEN_FILE in evidence.last:
        return causes.BAD_PATH, f"can't open {evidence.last.partition(CANNOT_OPEN_FILE)[2]}"
    usage = _usage_error(evidence.tail) if "usage: " in said.lower() else ""
    return (causes.USAGE, usage) if usage else None


def _usage_error(lines: tuple[str, ...]) -> str:
    """The message of argparse, click or fire, or of typer, which draws a box around it."""
    for number, line in enumerate(lines):
        if line.lower().startswith("error: ") or ": error: " in line:
            return line[line.lower().index("error: ") + len("error: ") :] or "usage"
        if line.strip("╭─╮ ") == "Error":
            return "".join(lines[number + 1 : number + 2]).strip("│ ")
    return ""


def _by_output(evidence: Evidence) -> tuple[str, str] | None:
    name = exception_name(evidence.raised)
    if found := _by_text(evidence.text):
        return found
    if name.rpartition(".")[2] in MEMORY_ERRORS or _has(evidence.text, patterns.MEMORY):
        return causes.OUT_OF_MEMORY, "the machine is out of memory"
    if names_lost_peer(evidence.root) if evidence.raised else _reports_lost_peer(evidence):
        return causes.LOST_CONNECTION, "lost the connection to another process"
    return (causes.EXCEPTION, name) if name else None


def _by_code_alone(evidence: Evidence) -> tuple[str, str]:
    """Nothing is known but the exit code or signal."""
    signal = signal_of(evidence.code)
    if signal == causes.SIGABRT:
        return causes.ABORTED, ""
    return (causes.SIGNALLED, BUS_ERROR * (signal == causes.SIGBUS)) if signal else (causes.EXITED, "")


CHECKS = (_by_exit, _by_import_error, _by_syntax_error, _by_usage_error, _by_output, _by_code_alone)


def _by_text(text: str) -> tuple[str, str] | None:
    return next(((cause, words) for cause, words, texts in CAUSES_BY_TEXT if _has(text, texts)), None)


def _reports_lost_peer(evidence: Evidence) -> bool:
    """Native code aborts right after its message, so the whole tail counts. A program that exits on its own may have
    printed anything before: only its last line counts."""
    died = signal_of(evidence.code) != 0 or evidence.asked_to_stop
    return _has("\n".join(evidence.tail) if died else evidence.last, patterns.LOST_PEER)


def _has(text: str, texts: tuple[str, ...]) -> bool:
    text = text.lower()
    return any(one in text for one in texts)
