"""Every error that flota reports to users, with its message, hint and exit code.

The classes in this file are raised when a round starts. That may be when no descriptor is left, and then no other file
can be imported. The others are in a file for each feature, and are imported when they are first used, as in
`errors.BadValue`: a job without errors does not pay for them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic, TypeVarTuple, Unpack

    # ruff: noqa: F403
    from flota.errors.binding import *
    from flota.errors.commands import *
    from flota.errors.control import *
    from flota.errors.devices import *
    from flota.errors.engines import *
    from flota.errors.etcd_members import *
    from flota.errors.hosts import *
    from flota.errors.job_roles import *
    from flota.errors.platforms import *
    from flota.errors.rendezvous import *
    from flota.errors.usage import *

    Facts = TypeVarTuple("Facts")
else:
    FEATURES = (
        *("usage", "devices", "rendezvous", "job_roles", "commands", "control"),
        *("binding", "platforms", "engines", "hosts", "etcd_members"),
    )

    def __getattr__(name):
        for feature in FEATURES:
            classes = vars(__import__(f"flota.errors.{feature}", fromlist=[name]))
            if name in classes:
                return classes[name]
        raise AttributeError(f"module 'flota.errors' has no attribute '{name}'")


USAGE = 2
BUG = 70
TRY_AGAIN = 75
HANG = TIMEOUT = 124  # as timeout(1) returns

MORE_FILES = "run `ulimit -n 65536` first"
# flota is installed from a clone: no package index has it yet.
INSTALL_SPY = "run `pip install py-spy`, or `pip install '.[stacks]'` in a clone of flota"
# After EAGAIN from fork().
PROCESS_LIMIT_HINT = "raise the process limit: `ulimit -u`, or the container's (`docker run --pids-limit`, pids.max)"


class FlotaError(Exception):
    """An error that is reported to the user with a message and a hint."""

    exit_code = USAGE
    has_rows = False  # whether the message has several lines
    message: str
    hint: str = ""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """The hint is included for tracebacks, where nothing else shows it."""
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the finished message: subclasses have constructors with other arguments."""
        return Exception.__new__, (type(self), *self.args), self.__dict__


if TYPE_CHECKING:

    class TemplateError(FlotaError, Generic[Unpack[Facts]]):  # noqa: UP044  workers have Python 3.8
        """An error whose message and hint are templates. The brackets list the types of `{0}`, `{1}` and so on."""

        def __init__(self, *facts: Unpack[Facts]) -> None: ...  # noqa: UP044

else:

    class TemplateError(FlotaError):
        def __init__(self, *facts):
            super().__init__(self.message.format(*facts), self.hint.format(*facts))

        def __class_getitem__(cls, kinds):
            return cls


def spelled(name: str, value: str) -> str:
    """A flag or a Python option with a value, as the user would write it."""
    return f"{name} {value}" if name.startswith("-") else f"{name}={value!r}"


class ForeignAddress(TemplateError[str]):
    message = "`{0}` is not an address of this machine"
    hint = "run `ip -brief address` to list its addresses"


class UnwritableLogDir(FlotaError):
    def __init__(self, path: str, why: str, option: str = "--log_dir") -> None:
        words = f"cannot write to the log directory `{path}`: {why}"
        super().__init__(words, f"choose another with {spelled(option, 'DIR')}")


class LogDirInUse(FlotaError):
    def __init__(self, path: str, owner: str, option: str = "--log_dir") -> None:
        words = f"another job is writing to the log directory `{path}`{owner}"
        super().__init__(words, f"choose another with {spelled(option, 'DIR')}")


class TooManyProcesses(TemplateError[()]):
    message = "cannot start another process: the process limit has been reached"
    hint = PROCESS_LIMIT_HINT


class TooFewPorts(TemplateError[int, int, int, int]):
    message = "{0} free ports are needed, but {2}:{3} has only {1}"
    hint = "widen --port-range LOW:HIGH"


class TooManyOpenFiles(TemplateError[int]):
    message = "{0} ports are needed, more than the limit on open files allows"
    hint = MORE_FILES


class TooFewFiles(TemplateError[int, int, int]):
    message = "this process may open only {0} files, but needs {2} to watch {1} workers"
    hint = MORE_FILES


class OutOfFiles(TemplateError[()]):
    message = "this process has no file descriptors left"
    hint = MORE_FILES


class PortInUse(FlotaError):
    def __init__(self, port: int, owner: str = "") -> None:
        hint = f"run `ss -ltnp sport = :{port}` to find the process, or choose another port"
        super().__init__(f"port {port} is in use{f' by {owner}' if owner else ''}", hint)


class VariableTooLong(TemplateError[str, int]):
    message = "{0} would be {1} bytes, more than an environment variable can hold"
    hint = "use fewer workers, or another --framework"
